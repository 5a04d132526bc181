"""The hooks of a suite: their docstrings run as they stand, and mistakes in them cost little."""

import ast
import inspect
import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
from bench import BUSYBOX, REWARD, Bench, _script

from pytest_infranoise.plugin import hookspecs

DOCS = Path(__file__).parents[2] / "docs" / "hooks.md"


def example_of(name: str) -> str:
    """Return the example in a hook's docstring, as a conftest."""
    text = inspect.getdoc(getattr(hookspecs, name)) or ""
    example = textwrap.dedent(text.partition("Example:\n")[2])
    assert name in example
    return example


def conftest(bench: Bench, *parts: str) -> None:
    bench.pytester.makeconftest("\n\n".join(parts))


def manifest_of(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((bench.studies()[-1] / "manifest.json").read_text())
    return found


def test_every_hook_has_an_example() -> None:
    hooks = [name for name in vars(hookspecs) if name.startswith("pytest_infra_")]
    assert len(hooks) == 5
    for name in hooks:
        ast.parse(example_of(name))


def test_run_agent_example(bench: Bench) -> None:
    bench.task("calm", "true", test="grep -q done /app/done && echo 1 >/logs/verifier/reward.txt")
    conftest(bench, example_of("pytest_infra_run_agent"))
    bench.run("--infra-multipliers=1", "-n0")
    assert bench.outcomes() == {("calm", "1x"): "passed"}
    assert manifest_of(bench)["agent"]["name"] == "hook"


def test_collect_task_example(one_bench: Bench) -> None:
    folder = one_bench.path / "bench" / "mine"
    for inner in ("environment", "solution", "tests"):
        (folder / inner).mkdir(parents=True)
    (folder / "job.txt").write_text("Make /app/done.\n")
    (folder / "environment" / "Dockerfile").write_text(f"FROM {BUSYBOX}\nWORKDIR /app\n")
    _script(folder / "solution" / "solve.sh", "touch /app/done")
    _script(folder / "tests" / "test.sh", REWARD)
    (folder / "tests" / "test_inner.py").write_text("def test_inner(): assert False\n")
    one_bench.task("calm")
    conftest(one_bench, example_of("pytest_infra_collect_task"))
    for workers in ("-n0", "-n2"):
        one_bench.run("--infra-multipliers=1,2", workers)
        assert one_bench.outcomes() == {
            (task, name): "passed" for task in ("mine", "calm") for name in ("1x", "2x")
        }
    result = one_bench.pytester.runpytest_subprocess(
        "bench/mine/job.txt::2x-s1", "--infra-multipliers=1,2", "-n0", "--infra-backend=docker"
    )
    result.assert_outcomes(passed=1)


def test_classify_example(one_bench: Bench) -> None:
    down = "echo 'the licence server is down'; echo 0 >/logs/verifier/reward.txt"
    one_bench.task("licensed", test=down)
    one_bench.task("wrong", "true")
    conftest(one_bench, example_of("pytest_infra_classify"))
    one_bench.run("--infra-multipliers=1", "-n0")
    records = {record["task"]: record for record in one_bench.records()}
    licensed, wrong = records["licensed"], records["wrong"]
    assert (licensed["outcome"], licensed["cause"]) == ("infra_error", "verifier_bootstrap")
    assert licensed["detail"] == "licence server is down"
    assert licensed["notes"][-1] == "the suite's own verdict; by the rules it was failed"
    assert (wrong["outcome"], wrong["notes"]) == ("failed", [])


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_trial_finished_example(one_bench: Bench, workers: str) -> None:
    one_bench.task("calm")
    one_bench.task("wrong", "true")
    conftest(one_bench, example_of("pytest_infra_trial_finished"))
    one_bench.run("--infra-multipliers=1", workers)
    lines = (one_bench.path / "outcomes.txt").read_text().splitlines()
    assert sorted(lines) == ["calm 1x passed", "wrong 1x failed"]


def test_manifest_example(one_bench: Bench) -> None:
    one_bench.task("calm")
    conftest(one_bench, example_of("pytest_infra_manifest"))
    one_bench.run("--infra-multipliers=1", "-n0")
    assert manifest_of(one_bench)["suite"] == {"model": "some-model-2", "temperature": 0.7}


def test_an_agent_that_is_named_is_not_the_hook(one_bench: Bench) -> None:
    one_bench.task("calm")
    conftest(one_bench, "def pytest_infra_run_agent(): raise AssertionError('asked')")
    one_bench.run("--infra-multipliers=1", "-n0", "--infra-agent=oracle")
    assert one_bench.outcomes() == {("calm", "1x"): "passed"}
    one_bench.run("--infra-multipliers=1", "-n0", "--infra-agent=hook:mine 1.2")
    assert manifest_of(one_bench)["agent"]["name"] == "mine 1.2"
    (record,) = one_bench.records()
    assert (record["outcome"], record["cause"]) == ("infra_error", "harness")
    assert record["detail"] == "pytest_infra_run_agent: AssertionError: asked"


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ("return None", "no pytest_infra_run_agent took the task *"),
        ("return 0", "pytest_infra_run_agent returned int, not a StepResult"),
        ("return sandbox.nothing", "pytest_infra_run_agent: AttributeError: *"),
    ],
)
def test_a_hook_that_gives_no_answer_is_an_infra_error(
    one_bench: Bench, body: str, detail: str
) -> None:
    one_bench.task("calm")
    conftest(one_bench, f"def pytest_infra_run_agent(sandbox):\n    {body}\n")
    one_bench.run("--infra-multipliers=1", "-n0")
    (record,) = one_bench.records()
    assert (record["outcome"], record["cause"]) == ("infra_error", "harness")
    pytest.LineMatcher([record["detail"]]).fnmatch_lines([detail])


def test_a_hook_agent_without_a_hook_is_a_usage_error(plain_bench: Bench) -> None:
    plain_bench.task("calm")
    result = plain_bench.run("--infra-multipliers=1", "-n0", "--infra-agent=hook")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --infra-agent=hook: no conftest.py *run_agent*"])


def test_failing_hooks_cost_a_line_and_no_record(one_bench: Bench) -> None:
    one_bench.task("wrong", "true")
    conftest(
        one_bench,
        "def pytest_infra_classify(): return 1 / 0",
        "def pytest_infra_trial_finished(): raise OSError('no disk')",
    )
    result = one_bench.run("--infra-multipliers=1", "-n0")
    (record,) = one_bench.records()
    assert record["outcome"] == "failed"
    assert record["notes"] == ["pytest_infra_classify failed: ZeroDivisionError: division by zero"]
    result.stdout.fnmatch_lines(["infranoise: pytest_infra_trial_finished: OSError: no disk"])


@pytest.mark.parametrize(
    ("hook", "line"),
    [
        (
            "def pytest_infra_collect_task(path): return {}",
            "ERROR: *pytest_infra_collect_task returned dict, not a Task",
        ),
        (
            "def pytest_infra_collect_task(path): return path.nothing",
            "ERROR: *pytest_infra_collect_task: AttributeError: *",
        ),
        (
            "def pytest_infra_manifest(): return 3",
            "ERROR: pytest_infra_manifest returned int, not a dict",
        ),
    ],
)
def test_hooks_that_cannot_be_used_are_one_line(one_bench: Bench, hook: str, line: str) -> None:
    one_bench.task("calm")
    conftest(one_bench, hook)
    result = one_bench.run("--infra-multipliers=1", "-n0")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([line])


def test_the_documented_conftest_runs(bench: Bench) -> None:
    """The ten lines for a suite that has its own runner."""
    bench.task("calm")
    block = DOCS.read_text().partition("```python title=conftest.py\n")[2].partition("```")[0]
    assert 5 <= sum(bool(line) for line in block.splitlines()) <= 12
    (bench.path / "my_runner.py").write_text(
        "def solve(instruction, run):\n"
        "    assert 'Make /app/done' in instruction\n"
        "    code, output = run('touch /app/done && echo made')\n"
        "    assert (code, output) == (0, 'made\\n')\n"
    )
    conftest(bench, block)
    bench.run("--infra-multipliers=1", "-n0", "-p", "no:cacheprovider")
    assert bench.outcomes() == {("calm", "1x"): "passed"}
