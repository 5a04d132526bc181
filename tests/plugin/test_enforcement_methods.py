"""How limits are enforced, as a user of the plugin sees it."""

import json
from pathlib import Path
from typing import Any

import pytest
from bench import BUSYBOX, Bench, hog

from pytest_infranoise.model.enforcement import PRESETS, THREAD_VARIABLES


def manifest(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((bench.studies()[-1] / "manifest.json").read_text())
    return found


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--infra-enforcement=soft",), ("--infra-enforcement", "'soft'")),
        (("--infra-enforcement=lenient:0",), ("--infra-enforcement", "seconds")),
        (("--infra-oom-policy=group",), ("--infra-oom-policy", "'group'")),
        (("--infra-visible=some",), ("--infra-visible", "'some'")),
        (
            ("--infra-enforcement=k8s-1x", "--infra-oom-policy=process"),
            ("--infra-enforcement=k8s-1x", "--infra-oom-policy=process"),
        ),
        (
            ("--infra-enforcement=harbor-docker", "--infra-admit=guarantee"),
            ("--infra-enforcement=harbor-docker", "--infra-admit=guarantee"),
        ),
    ],
)
def test_what_cannot_be_used_is_one_line(
    plain_bench: Bench, arguments: tuple[str, ...], named: tuple[str, ...]
) -> None:
    plain_bench.task("calm")
    result = plain_bench.run("--infra-samples=1", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in result.stderr.lines if line.startswith("ERROR")]
    assert len(lines) == 1
    assert all(word in lines[0] for word in named)


def test_a_contradiction_with_the_ini_file_names_the_file(plain_bench: Bench) -> None:
    plain_bench.task("calm")
    plain_bench.pytester.makeini("[pytest]\ninfra_oom_policy = process\n")
    result = plain_bench.run("--infra-enforcement=k8s-1x")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--infra-enforcement=k8s-1x*tox.ini: infra_oom_policy=process*"])


@pytest.mark.parametrize(
    ("preset", "more", "sets"),
    [
        ("k8s-1x", (), ["1x"]),
        ("k8s-1x", ("--infra-aa",), ["1x", "1x-aa"]),
        ("k8s-1x-3x", (), ["3x"]),
        ("harbor-docker", (), ["1x"]),
        ("k8s-1x-3x", ("--infra-multipliers=1,2",), ["1x", "2x"]),
        ("k8s-1x-3x", ("--infra-memory-multipliers=2",), ["mem2x-cpu1x"]),
    ],
)
def test_a_preset_is_a_sweep_with_its_own_multipliers(
    one_bench: Bench, preset: str, more: tuple[str, ...], sets: list[str]
) -> None:
    one_bench.task("calm")
    result = one_bench.run(f"--infra-enforcement={preset}", "--infra-dry-run", *more)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines([f"*sets {', '.join(sets)}, *"])
    result.stdout.fnmatch_lines([f"*{PRESETS[preset].enforcement.words()}*"])
    is_other = any("multipliers" in option for option in more)
    warning = f"this run has {', '.join(sets)}, so only its way of enforcing them is {preset}'s"
    assert (warning in result.stdout.str()) == is_other


def test_the_container_policy_ends_trials_and_is_recorded(bench: Bench) -> None:
    bench.task("hungry", f"({hog(64)})\ntouch /app/done; exit 0")
    assert bench.run("--infra-multipliers=1,4", "--infra-oom-policy=container").ret == 1
    assert bench.outcomes() == {("hungry", "1x"): "oom", ("hungry", "4x"): "passed"}
    killed = next(record for record in bench.records() if record["parameter_set"] == "1x")
    assert killed["cause"] == "ended_phase"
    assert [phase["phase"] for phase in killed["phases"]] == ["setup", "agent", "teardown"]
    entry = manifest(bench)["enforcement"]
    assert entry["oom_policy"] == "container"
    assert entry["words"] == "hard limit, oom policy container"


def test_a_marked_test_cannot_pass_once_a_kill_has_ended_its_trial(bench: Bench) -> None:
    bench.pytester.makepyfile(
        test_marked=f"""
        import pytest

        @pytest.mark.infra(memory="32M", image="{BUSYBOX}")
        def test_it(infra_sandbox):
            infra_sandbox.exec("({hog(64)}); exit 0")
        """
    )
    result = bench.pytester.runpytest_subprocess(
        "test_marked.py",
        f"--infra-backend={bench.engine}",
        "--infra-multipliers=1,4",
        "--infra-oom-policy=container",
        timeout=120,
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    outcomes = {record["parameter_set"]: record["outcome"] for record in bench.records()}
    assert outcomes == {"1x": "oom", "4x": "passed"}


def test_lenient_limits_let_a_short_overrun_pass(bench: Bench) -> None:
    hold = "x=$(dd if=/dev/zero bs=1M count=48 2>/dev/null | tr '\\0' a); sleep {}; echo ${{#x}}"
    bench.task("short", hold.format(0.3) + "; touch /app/done")
    bench.task("long", hold.format(60) + "; touch /app/done")
    result = bench.run("--infra-samples=1", "--infra-enforcement=lenient:4")
    result.stdout.fnmatch_lines(["*lenient 4 s, oom policy process*"])
    assert bench.outcomes() == {("short", "1x"): "passed", ("long", "1x"): "oom"}
    records = {record["task"]: record for record in bench.records()}
    assert 0 < records["short"]["overrun_seconds"] < 4
    assert 3.5 < records["long"]["overrun_seconds"] < 8
    assert records["long"]["oom_kills"] == 1
    assert records["long"]["phases"][1]["oom_kills_source"] == "lenient watchdog"


def test_a_method_without_reservation(bench: Bench) -> None:
    bench.task("calm")
    assert bench.run("--infra-enforcement=harbor-docker").ret == 0
    (record,) = bench.records()
    assert (record["memory_guarantee_bytes"], record["memory_limit_bytes"]) == (0, 32 << 20)
    assert record["effective"]["memory_reservation_bytes"] is None
    assert record["requested"]["memory_guarantee_bytes"] == 32 << 20
    swap = record["effective"].get("memory_swap_bytes")
    assert swap in (None, 64 << 20)


@pytest.mark.parametrize("visible", ["host", "limit"])
def test_what_a_task_sees_of_the_cpus(bench: Bench, visible: str) -> None:
    names = " ".join(f"{name}=${name}" for name in THREAD_VARIABLES)
    bench.task("sees", f"nproc; echo {names}; touch /app/done", environment="cpus = 1")
    bench.run("--infra-multipliers=1", f"--infra-visible={visible}")
    (record,) = bench.records()
    import os

    threads = "1" if visible == "limit" else ""
    number = 1 if visible == "limit" else len(os.sched_getaffinity(0))
    assert record["outcome"] == "passed"
    assert record["visible_cpus"] == number
    (line,) = [line for line in record["phases"][1]["output"].splitlines() if "GOMAXPROCS=" in line]
    assert {word.split("=")[1] for word in line.split()} == {threads}
    assert manifest(bench)["enforcement"]["visible"] == visible


def test_no_shared_ceiling_is_left(bench: Bench) -> None:
    bench.task("calm")
    bench.run("--infra-samples=1")
    (record,) = bench.records()
    ceiling = record["effective"]["memory_ceiling_bytes"]
    assert ceiling > record["memory_limit_bytes"]
    study = bench.studies()[-1].name
    assert not list(Path("/sys/fs/cgroup").rglob(f"*{study}*"))


def test_no_shared_ceiling_is_left_by_workers(one_bench: Bench) -> None:
    one_bench.task("calm")
    one_bench.run("--infra-samples=2", "-n2")
    ceilings = {record["effective"]["memory_ceiling_bytes"] for record in one_bench.records()}
    assert len(ceilings) == 1
    study = one_bench.studies()[-1].name
    assert not list(Path("/sys/fs/cgroup").rglob(f"*{study}*"))
