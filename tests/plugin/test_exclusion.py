"""`--infra-exclude`: what is left out by name, and the refusal that says whom to leave out."""

import json
import re

import pytest
from bench import Bench

from pytest_infranoise.admission import Budget
from pytest_infranoise.errors import BackendUnavailableError, UsageError
from pytest_infranoise.model.enforcement import DEFAULT_ENFORCEMENT
from pytest_infranoise.model.resources import Capacity, ResourceSpec, joint_sets, parse_multipliers
from pytest_infranoise.model.task import ImageSource, Task
from pytest_infranoise.plugin.exclusion import (
    check_fit,
    check_patterns,
    pattern_of,
    split_patterns,
)
from pytest_infranoise.units import GIB

CAPACITY = Capacity(memory_bytes=8 * GIB, cpu_cores=2)
BUDGET = Budget(7 * GIB, 2)
SETS = joint_sets(parse_multipliers("1", where="test"))


def task(name: str, memory: int = GIB, cores: float = 1) -> Task:
    spec = ResourceSpec.declared(memory, cores)
    return Task(name, "sha256:0", spec, ImageSource(docker_image="x"), agent_timeout_seconds=None)


def fit(*tasks: Task, **changed: object) -> None:
    options: dict[str, object] = {
        "enforcement": DEFAULT_ENFORCEMENT, "admit": "guarantee", "clamp": False,
        "check": lambda own: None,
    }  # fmt: skip
    check_fit(tasks, SETS, CAPACITY, BUDGET, **{**options, **changed})  # type: ignore[arg-type]


def refusal(*tasks: Task, **changed: object) -> list[str]:
    with pytest.raises(UsageError) as caught:
        fit(*tasks, **changed)
    return str(caught.value).splitlines()


def test_patterns() -> None:
    patterns = split_patterns(["big*, a/b", "", "c,big*"])
    assert patterns == ("big*", "a/b", "c")
    names = ["bigger", "a/b", "c", "set/big", "C"]
    assert [pattern_of(name, patterns) for name in names] == ["big*", "a/b", "c", None, None]


def test_a_pattern_that_matches_nothing_names_the_nearest_name() -> None:
    words = r"^--x: 'hungri' matches no task; the nearest name is 'hungry'$"
    with pytest.raises(UsageError, match=words):
        check_patterns(["calm", "hungri"], ["calm", "hungry", "wrong"], where="--x")
    with pytest.raises(UsageError, match=r"^--x: 'a' matches no task; no task was found$"):
        check_patterns(["a"], [], where="--x")
    with pytest.raises(UsageError, match=r"^--x: c\*, w leaves no task$"):
        check_patterns(["c*", "w"], ["calm", "w"], where="--x")
    check_patterns([], [], where="--x")


def test_all_that_does_not_fit_is_said_at_once_with_the_option_that_leaves_it_out() -> None:
    def check(own: Task) -> None:
        if own.name == "gpu":
            raise UsageError("task gpu: needs a GPU")

    tasks = (task("ok"), task("far", 9 * GIB), task("near", 7 * GIB + 1), task("wide", cores=3))
    lines = refusal(*tasks, task("gpu"), check=check, excluded=("old*",))
    starts = [
        "task far, parameter set 1x: kill threshold 9 GiB",
        "task far: guarantee 9 GiB never fits",
        "task near: guarantee 7 GiB never fits",
        "task wide: CPU guarantee 3 cpu never fits",
        "task gpu: needs a GPU",
        "4 tasks do not fit here; ",
    ]
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts
    assert lines[-1] == (
        "4 tasks do not fit here; '--infra-exclude=old*,far,near,wide,gpu' leaves them out by name "
        "and runs the other 1"
    )
    fit(*(item for item in tasks if item.name == "ok"))


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("plain-1", "--infra-exclude=plain-1 "),
        ("a/b", "--infra-exclude=a/b "),
        ("two words", "'--infra-exclude=two words' "),
        ("star*", "'--infra-exclude=star[*]' "),
        ("a,b", "'--infra-exclude=a?b' "),
    ],
)
def test_the_option_can_be_copied_into_a_shell_and_matches_the_name(name: str, option: str) -> None:
    line = refusal(task("ok"), task(name, 9 * GIB))[-1]
    assert line.startswith(f"1 task does not fit here; {option}leaves it out by name and runs the")
    (pattern,) = split_patterns([option.strip(" '").partition("=")[2]])
    assert pattern_of(name, [pattern]) == pattern


def test_where_nothing_fits_there_is_nothing_to_leave_out() -> None:
    assert "--infra-exclude" not in refusal(task("far", 9 * GIB))[-1]


def test_an_engine_that_is_away_is_no_task_that_does_not_fit() -> None:
    def check(own: Task) -> None:
        raise BackendUnavailableError("the engine does not answer")

    with pytest.raises(BackendUnavailableError):
        fit(task("a"), task("b"), check=check)


def test_what_does_not_fit_is_left_out_as_the_refusal_says_and_recorded(local_bench: Bench) -> None:
    local_bench.task("calm")
    local_bench.task("huge", memory="900000G")
    local_bench.task("wide", environment="cpus = 9000")
    run = ("--infra-multipliers=1", "--infra-study=study")
    refused = local_bench.run(*run)
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    option = re.search(r"--infra-exclude=\S+", refused.stderr.str())
    assert option is not None
    assert option[0] == "--infra-exclude=huge,wide"
    (local_bench.path / "bench" / "huge" / "task.toml").write_text("left out unread")
    result = local_bench.run(*run, option[0], "--infra-report=report.md", "-n1")
    assert result.ret == 0, result.stdout.str()
    words = "left out of the study: huge, wide"
    result.stdout.fnmatch_lines([f"--infra-exclude: 2 of 3 task(s) {words}"])
    manifest = json.loads((local_bench.path / "study" / "manifest.json").read_text())
    assert manifest["excluded_tasks"] == ["huge", "wide"]
    assert [item["name"] for item in manifest["tasks"]] == ["calm"]
    report = (local_bench.path / "report.md").read_text()
    assert "left out by --infra-exclude: huge, wide" in report
    assert local_bench.run("--infra-study=study", "--infra-resume").ret == 0  # keeps the option


def test_a_wrong_pattern_is_a_usage_error_that_names_its_place(local_bench: Bench) -> None:
    local_bench.task("calm")
    local_bench.pytester.makeini("[pytest]\ninfra_exclude =\n    clam\n")
    result = local_bench.run("--infra-multipliers=1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: *infra_exclude: 'clam' matches no task; the nearest name is 'calm'"]
    )
