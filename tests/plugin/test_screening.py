"""`--infra-screen-oracle`: broken tasks leave the study, by name and reason."""

import json
from typing import Any

import pytest
from bench import Bench, hog


def manifest_of(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((bench.studies()[-1] / "manifest.json").read_text())
    return found


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_broken_tasks_are_left_out_by_name_and_reason(bench: Bench, workers: str) -> None:
    bench.standard()  # `wrong` has a solution that solves nothing
    no_runner = "uvx pytest; echo 0 >/logs/verifier/reward.txt"
    bench.task("offline", test=no_runner)
    agent = "--infra-agent=touch /app/done"
    result = bench.run("--infra-multipliers=1,4", workers, "--infra-screen-oracle", agent)
    assert bench.outcomes() == {
        (task, name): "passed" for task in ("calm", "hungry") for name in ("1x", "4x")
    }
    result.stdout.fnmatch_lines(
        [
            "oracle screen: 2 of 4 task(s) left out of the study",
            "left out: offline: its reference solution is infra_error uncapped, verifier_boot*",
            "left out: wrong: its reference solution is failed uncapped",
        ]
    )
    result.stdout.fnmatch_lines(["infranoise: oracle screen, 4 of 4: *"])
    assert result.ret == 0
    manifest = manifest_of(bench)
    assert sorted(task["name"] for task in manifest["tasks"]) == ["calm", "hungry"]
    screen = {item["task"]: item for item in manifest["oracle_screen"]}
    assert screen["calm"]["outcome"] == screen["hungry"]["outcome"] == "passed"
    assert screen["hungry"]["memory_peak_bytes"] > 60 * 1024**2  # above its own 32 MiB: uncapped
    assert screen["wrong"]["reason"] == "its reference solution is failed uncapped"
    assert screen["offline"]["cause"] == "verifier_bootstrap"
    assert manifest["planned_trials"] == 4


@pytest.mark.parametrize(("leftovers", "stays"), [("keep", True), ("kill", False)])
def test_tasks_that_need_their_leftovers_are_named(
    one_bench: Bench, leftovers: str, stays: bool
) -> None:
    alive = "kill -0 $(cat /app/pid) && r=1 || r=0; echo $r >/logs/verifier/reward.txt"
    one_bench.task("service", "sleep 300 & echo $! >/app/pid", test=alive)
    one_bench.task("calm")
    result = one_bench.run(
        "--infra-multipliers=1", "-n0", "--infra-screen-oracle", f"--infra-leftovers={leftovers}"
    )
    assert (("service", "1x") in one_bench.outcomes()) is stays
    service = next(x for x in manifest_of(one_bench)["oracle_screen"] if x["task"] == "service")
    assert service.get("passes_with_keep") is (None if stays else True)
    if not stays:
        result.stdout.fnmatch_lines(
            ["left out: service: passes only with leftovers keep, and the study uses kill (*"]
        )


def test_a_task_without_a_solution_stays_and_is_noted(one_bench: Bench) -> None:
    directory = one_bench.task("unsolved")
    (directory / "solution" / "solve.sh").unlink()
    one_bench.run(
        "--infra-multipliers=1", "-n0", "--infra-screen-oracle", "--infra-agent=touch /app/done"
    )
    assert one_bench.outcomes() == {("unsolved", "1x"): "passed"}
    (item,) = manifest_of(one_bench)["oracle_screen"]
    assert item["note"] == "not screened: it has no reference solution"


def test_nothing_is_left_of_a_broken_benchmark(one_bench: Bench) -> None:
    one_bench.task("wrong", "true")
    one_bench.task("greedy", "exit 1")
    result = one_bench.run("--infra-multipliers=1", "-n0", "--infra-screen-oracle")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: --infra-screen-oracle leaves no task:",
            "*greedy: its reference solution is failed uncapped",
            "*wrong: its reference solution is failed uncapped",
        ]
    )
    assert one_bench.studies() == []


def test_a_dry_run_screens_nothing(one_bench: Bench) -> None:
    one_bench.task("wrong", f"{hog(64)}")
    result = one_bench.run("--infra-multipliers=1", "--infra-screen-oracle", "--infra-dry-run")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*oracle screen*")


def test_the_variables_of_solutions_must_be_there_for_the_screen(plain_bench: Bench) -> None:
    plain_bench.task("keyed", extra='[solution]\nenv = { KEY = "${INFRANOISE_NO_SUCH}" }')
    result = plain_bench.run(
        "--infra-multipliers=1", "-n0", "--infra-screen-oracle", "--infra-agent=true"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *[[]solution[]] env.KEY: INFRANOISE_NO_SUCH is not set*"])


def test_a_resumed_study_keeps_the_screening_it_began_with(one_bench: Bench) -> None:
    one_bench.task("calm")
    one_bench.task("wrong", "true")
    options = ("--infra-multipliers=1", "-n0", "--infra-screen-oracle", "--infra-study=mine")
    one_bench.run(*options)
    result = one_bench.run(*options, "--infra-resume")
    result.stdout.no_fnmatch_line("*oracle screen, * of *: *")
    result.stdout.fnmatch_lines(["left out: wrong: its reference solution is failed uncapped"])
    assert len(one_bench.records(one_bench.path / "mine")) == 1
