"""Task folders in the layout of Terminal-Bench 2 run as they stand."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sandboxes import PYTHON

TASKS = Path(__file__).parents[1] / "terminal_bench_style"
HUNGRY = {
    "c-sieve-table",
    "matrix-4g",
    "parallel-words-2cpu",
    "sqlite-in-memory-join",
    "table-from-service",
}
SERVICES = {"nginx-static-site", "background-counter-service"}


@pytest.fixture
def run(
    pytester: pytest.Pytester, docker_image: Callable[[str], str], compose_backend: Any
) -> Callable[..., pytest.RunResult]:
    """Return a function that runs pytest over the named tasks, or all of them."""
    docker_image(PYTHON)

    def run_tasks(*options: str, only: set[str] | None = None) -> pytest.RunResult:
        names = sorted(only or {path.parent.name for path in TASKS.glob("*/task.toml")})
        for name in names:
            shutil.copytree(TASKS / name, pytester.path / "bench" / name)
        fixed = ("bench", "--infra-backend=docker", "-n0", "-p", "no:cacheprovider")
        return pytester.runpytest_subprocess(*fixed, *options, timeout=900)

    return run_tasks


def study_of(pytester: pytest.Pytester) -> Path:
    (study,) = (pytester.path / ".infranoise").glob("2*")
    return study


def records_of(pytester: pytest.Pytester) -> list[dict[str, Any]]:
    lines = (study_of(pytester) / "trials.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_the_oracle_solves_all_and_a_twentieth_of_the_memory_kills(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    result = run("--infra-memory-multipliers=1,0.05", "--infra-exit=study")
    assert result.ret == 0
    records = records_of(pytester)
    outcomes: dict[str, dict[str, str]] = {}
    for record in records:
        by_task = outcomes.setdefault(record["parameter_set"], {})
        by_task[record["task"]] = record["outcome"]
    at_1x, tight = outcomes["mem1x-cpu1x"], outcomes["mem0.05x-cpu1x"]
    assert len(at_1x) == len(tight) >= 12
    assert set(at_1x.values()) == {"passed"}, at_1x
    assert {task for task, outcome in tight.items() if outcome == "oom"} == HUNGRY
    kills = {record["task"]: record["oom_kills"] for record in records if record["oom_kills"]}
    assert set(kills) == HUNGRY
    assert all(record["score"] == 1.0 for record in records if record["outcome"] == "passed")
    limits = {
        record["task"]: record["memory_limit_bytes"] // 1024**2
        for record in records
        if record["parameter_set"] == "mem1x-cpu1x"
    }
    assert limits.pop("matrix-4g") == 4096
    assert set(limits.values()) == {2048}
    helpers = [record["helpers"]["store"] for record in records if record["helpers"]]
    assert [item["memory_limit_bytes"] // 1024**2 for item in helpers] == [128, 128]
    assert [item["oom_kills"] for item in helpers] == [0, 0]
    apart = [record["verifier"] for record in records if record["verifier"]]
    assert [item["memory_limit_bytes"] // 1024**2 for item in apart] == [1024, 1024]


def test_the_screen_names_the_tasks_that_need_their_services(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    options = ("--infra-samples=1", "--infra-screen-oracle", "--infra-leftovers=kill")
    result = run(*options, only={*SERVICES, "csv-summary", "curious-agent"})
    assert result.ret == 0
    assert {item["task"] for item in records_of(pytester)} == {"csv-summary", "curious-agent"}
    screen = json.loads((study_of(pytester) / "manifest.json").read_text())["oracle_screen"]
    assert {item["task"] for item in screen if item.get("passes_with_keep")} == SERVICES
    result.stdout.fnmatch_lines(
        [f"left out: {name}: passes only with leftovers keep*" for name in sorted(SERVICES)]
    )
