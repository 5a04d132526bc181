"""Tasks of several steps: what one step is to an agent, what lies between two, what all add up to.

The steps share a sandbox. Each has its own instruction, solution and tests, and is verified before
the next begins; nothing of the verification is left for the next step to read.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_infranoise.agents.shell import bash_command
from pytest_infranoise.backends.base import Placement, Sandbox
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import Cause, Ending, Verdict
from pytest_infranoise.model.task import RewardStrategy, Task, TaskStep
from pytest_infranoise.trial.beginning import lay_over, working_folder
from pytest_infranoise.trial.folders import AGENT_LOGS, VERIFIER_LOGS, fresh_logs
from pytest_infranoise.trial.verify import judged


def task_of_step(task: Task, step: TaskStep) -> Task:
    """Return the task as it is during one step: with the step's fields in place of its own."""
    return replace(
        task,
        steps=(),
        instruction=step.instruction,
        solution=step.solution,
        tests=step.tests[-1],
        agent_timeout_seconds=step.agent_timeout_seconds,
        verifier_timeout_seconds=step.verifier_timeout_seconds,
        verifier_environment=step.verifier_environment,
        agent_user=step.agent_user,
        verifier_user=step.verifier_user,
        healthcheck=step.healthcheck,
        verifier=step.verifier,
        artifacts=step.artifacts,
        collect=step.collect,
    )


def clear_verification(sandbox: Sandbox) -> None:
    """Remove what the verification of the step before left, and that step's agent logs."""
    tests = Placement("/tests", over="image")
    sandbox.place([*fresh_logs(AGENT_LOGS, VERIFIER_LOGS), tests])


def put_files(sandbox: Sandbox, task: Task, step: TaskStep, user: str | None) -> None:
    """Put a step's own files into the working folder and run its `setup.sh`.

    Raises:
        SandboxError: `sandbox_start`, the files could not be put or `setup.sh` failed.
    """
    if step.files is None:
        return
    workdir = working_folder(sandbox, task)
    lay_over(sandbox, step.files, workdir)
    if not (step.files / "setup.sh").is_file():
        return
    setup = sandbox.exec(
        bash_command(sandbox, f"{workdir.rstrip('/')}/setup.sh"),
        timeout_seconds=task.build_timeout_seconds,
        workdir=workdir,
        user=user,
    )
    if setup.ending is not Ending.OOM_POLICY and setup.exit_code != 0:
        raise _failed(step, f"setup.sh: {_ending_words(setup.exit_code)}", setup.output)


def spoilt(sandbox: Sandbox, error: SandboxError) -> Verdict | None:
    """Return the verdict where a step could not begin since an agent had changed its shell.

    None where it failed for another reason. It is asked only once a step before was worked on.
    """
    if error.cause is not Cause.SANDBOX_START:
        return None
    path = sandbox.altered(bash_command(sandbox))
    if path is None:
        return None
    return Verdict(detail=f"{error}: the agent changed {path}", by_agent=True)


def _ending_words(exit_code: int | None) -> str:
    return "ran into its deadline" if exit_code is None else f"exit code {exit_code}"


def _failed(step: TaskStep, what: str, output: str) -> SandboxError:
    tail = output.strip().splitlines()
    last = f": {tail[-1][:200]}" if tail else ""
    return SandboxError(Cause.SANDBOX_START, f"step {step.name}: {what}{last}")


def falls_short(verdict: Verdict | None, step: TaskStep) -> bool:
    """Whether a step's rewards are below what the steps after it require; a missing one is."""
    rewards: Mapping[str, float] = {} if verdict is None else verdict.rewards
    return any(rewards.get(name, -math.inf) < least for name, least in step.min_rewards.items())


def combine(
    verdicts: Sequence[Verdict], strategy: RewardStrategy, pass_threshold: float
) -> Verdict:
    """Return the verdict on a task from those on the steps that ran, at least one.

    `mean` takes the mean of every named reward over these steps, a missing one as 0; `final` is the
    last step's. A step without an answer leaves the task without one. The detail of a step that has
    failed without any reward is kept.
    """
    problem = next((item for item in verdicts if item.problem is not None), None)
    if problem is not None:
        return problem
    if strategy == "final":
        return verdicts[-1]
    names = {name: None for item in verdicts for name in item.rewards}
    if not names:
        return verdicts[-1]
    combined = judged(
        {
            name: math.fsum(item.rewards.get(name, 0.0) for item in verdicts) / len(verdicts)
            for name in names
        },
        pass_threshold,
    )
    without = next((item for item in reversed(verdicts) if not item.rewards), None)
    if without is None or combined.passed:
        return combined
    return replace(combined, detail=without.detail, by_agent=without.by_agent)
