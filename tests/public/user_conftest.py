"""What users write against the public names; mypy --strict checks it as it stands."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_infranoise import (
    AgentResult,
    AgentSandbox,
    AgentStep,
    Cause,
    Classification,
    Ending,
    ExecResult,
    ImageSource,
    InfraSandbox,
    Outcome,
    PhaseRecord,
    ResourceSpec,
    Sandbox,
    StepResult,
    Task,
    Usage,
    directory_digest,
    load_study,
    view_study,
)


def pytest_infra_run_agent(task: Task, sandbox: Sandbox, step: AgentStep) -> StepResult:
    result = sandbox.exec(
        ["sh", "-c", "echo done > /app/done"],
        timeout_seconds=step.timeout_seconds,
        environment=step.environment,
        workdir=task.workdir,
        user=step.user,
    )
    if result.ending is Ending.DEADLINE:
        return result
    return AgentResult(Ending.EXIT, 0, result.wall_seconds, usage=Usage(input_tokens=3))


def pytest_infra_collect_task(path: Path) -> Task | None:
    if path.name != "job.txt":
        return None
    return Task(
        name="",
        digest=directory_digest(path.parent),
        spec=ResourceSpec.declared(32 * 1024**2, None),
        image=ImageSource(build_context=path.parent / "environment"),
        instruction=path.read_text(),
    )


def pytest_infra_classify(
    phases: Sequence[PhaseRecord], classification: Classification
) -> Classification | None:
    if classification.outcome is Outcome.FAILED and "licence" in phases[-1].output:
        return Classification.infra(Cause.VERIFIER_BOOTSTRAP, "no licence")
    return None


def pytest_infra_trial_finished(record: Mapping[str, Any]) -> None:
    print(record["task"], record["outcome"])


def solve(instruction: str, sandbox: AgentSandbox) -> Usage:
    result = sandbox.exec(f"echo {len(instruction)} >hello.txt")
    return Usage(output_tokens=len(result.output))


def test_sorts(infra_sandbox: InfraSandbox) -> None:
    result: ExecResult = infra_sandbox.exec("sort /data/big.csv")
    assert result.exit_code == 0


def best_rate(folder: Path) -> float | None:
    analysis = view_study(load_study(folder)).analysis
    rates = [item.infra_error.macro for item in analysis.sets if item.infra_error is not None]
    return min(rates, default=None)
