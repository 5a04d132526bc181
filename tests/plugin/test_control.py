"""The A/A control: the baseline a second time under another id."""

import json
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench import BUSYBOX, Bench, hog

from pytest_infranoise.model.resources import (
    ParameterSet,
    crossed_sets,
    joint_sets,
    parse_multipliers,
    with_control,
)
from pytest_infranoise.model.trial import trial_id
from pytest_infranoise.plugin.recorder import trial_of
from pytest_infranoise.plugin.roles import _TRIAL_ID

MULTIPLIERS = parse_multipliers("1,1.5,3,0.25,uncapped", where="")
DESIGNS = {
    "joint": with_control(joint_sets(MULTIPLIERS)),
    "crossed": with_control(crossed_sets(MULTIPLIERS, MULTIPLIERS[:3], None)),
    "timed": with_control(crossed_sets(MULTIPLIERS[:2], None, MULTIPLIERS[:4])),
}
ROOT = Path("/project")


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize(
    "pattern", ["task.toml::{}", "test_a.py::test_b[{}]", "test_a.py::test_b[3x-{}-s2]"]
)
def test_every_id_is_read_back(design: str, pattern: str) -> None:
    sets = DESIGNS[design]
    runtime: Any = SimpleNamespace(
        sets={item.id: item for item in sets},
        config=SimpleNamespace(rootpath=ROOT),
        task_names={ROOT / "bench" / "calm": "calm"},
        known_trials={},
    )
    folder = "bench/calm/" if "toml" in pattern else ""
    for item, sample in product(sets, (1, 12)):
        nodeid = folder + pattern.format(trial_id(item.id, sample))
        assert _TRIAL_ID.search(nodeid), nodeid
        found = trial_of(runtime, nodeid)
        assert found is not None
        assert found[1:] == (item.id, sample)


@pytest.mark.parametrize("nodeid", ["test_a.py::test_b", "test_a.py::test_b[1x]", "t.py::t[x-s1]"])
def test_other_tests_are_no_trials(nodeid: str) -> None:
    assert not _TRIAL_ID.search(nodeid)


def test_the_baseline_runs_twice_and_is_compared_first(bench: Bench) -> None:
    bench.standard()
    result = bench.run("--infra-multipliers=4,1", "--infra-aa", "-n2")
    assert bench.outcomes() == {
        (task, name): outcome
        for task, outcomes in {
            "calm": ("passed", "passed", "passed"),
            "hungry": ("passed", "oom", "oom"),
            "wrong": ("failed", "failed", "failed"),
        }.items()
        for name, outcome in zip(("4x", "1x", "1x-aa"), outcomes, strict=True)
    }
    limits = {item["parameter_set"]: item["memory_limit_bytes"] for item in bench.records()}
    assert limits["1x"] == limits["1x-aa"] == 32 * 1024**2
    manifest = json.loads((bench.studies()[-1] / "manifest.json").read_text())
    assert (manifest["baseline"], manifest["control"]) == ("1x", "1x-aa")
    assert [item["id"] for item in manifest["parameter_sets"]] == ["4x", "1x", "1x-aa"]
    assert manifest["equal_sets"] == []
    result.stdout.fnmatch_lines(
        [
            "1x-aa *",
            "against 1x *",
            "4x *",
            "kills: none at 4x, 1 at 1x in 1 task, 1 at 1x-aa in 1 task",
            "A/A control: 1x-aa minus 1x, nothing changed: success 0.0 points*",
        ]
    )
    assert sum(line.startswith("1x-aa ") for line in result.stdout.lines) == 1  # no contrast


def test_marked_tests_have_a_control_in_crossed_sets_too(one_bench: Bench) -> None:
    one_bench.pytester.makepyfile(
        test_suite=f"""
        import pytest

        @pytest.mark.infra(memory="32M", image="{BUSYBOX}", timeout=20)
        def test_work(infra_sandbox):
            assert infra_sandbox.exec("{hog(64)}").exit_code == 0
        """
    )
    arguments = ("--infra-backend=docker", "--infra-memory-multipliers=1,4", "--infra-aa", "-n2")
    result = one_bench.pytester.runpytest_subprocess(*arguments, timeout=240)
    assert {name: outcome for (_, name), outcome in one_bench.outcomes().items()} == {
        "mem1x-cpu1x": "oom",
        "mem1x-cpu1x-aa": "oom",
        "mem4x-cpu1x": "passed",
    }
    result.stdout.fnmatch_lines(["*, 3 of 3 trials", "A/A control: mem1x-cpu1x-aa minus *"])


def test_the_option_alone_is_a_sweep(plain_bench: Bench) -> None:
    plain_bench.task("calm")
    result = plain_bench.run("--infra-aa", "--collect-only", "-q")
    ids = {line.partition("::")[2] for line in result.stdout.lines if "::" in line}
    assert ids == {"1x-s1", "1x-aa-s1"}


def test_switched_off_in_the_ini_file_it_is_none(plain_bench: Bench) -> None:
    plain_bench.task("calm")
    plain_bench.pytester.makeini("[pytest]\ninfra_aa = false\ninfra_until_decided = false\n")
    result = plain_bench.run("--collect-only", "-q")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_sets_keep_their_names_apart() -> None:
    for sets in DESIGNS.values():
        assert len({item.id for item in sets}) == len(sets)
        assert isinstance(sets[0], ParameterSet)


def test_the_ceiling_is_declared_before_the_first_trial(plain_bench: Bench) -> None:
    plain_bench.task("calm")
    wrong = plain_bench.run("--infra-multipliers=1,2,3", "--infra-ceiling=5x", "--collect-only")
    assert wrong.ret == 4
    wrong.stderr.fnmatch_lines(
        ["*--infra-ceiling: '5x' is not a parameter set of this run that is compared with *2x, 3x"]
    )
    same = plain_bench.run("--infra-multipliers=1,2", "--infra-ceiling=1x", "--collect-only")
    same.stderr.fnmatch_lines(["*--infra-ceiling: '1x' is not a parameter set*"])


def test_the_declared_ceiling_stands_in_the_manifest(local_bench: Bench) -> None:
    local_bench.task("calm")
    local_bench.run("--infra-multipliers=1,2,3", "--infra-ceiling=2x", "-n0")
    manifest = json.loads((local_bench.studies()[-1] / "manifest.json").read_text())
    assert manifest["ceiling"] == "2x"
