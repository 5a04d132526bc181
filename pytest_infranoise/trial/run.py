"""The life of a benchmark task's trial: agent and tests, once or for each of its steps."""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pytest_infranoise.agents.base import AgentResult, AgentStep
from pytest_infranoise.backends.base import (
    OWN_ENVIRONMENT,
    OWN_STEP_SECONDS,
    SHELL,
    Sandbox,
    StepResult,
)
from pytest_infranoise.design import agent_timeout
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import Cause, Ending, Phase, Verdict
from pytest_infranoise.model.task import PreparedImage, Task, TaskStep
from pytest_infranoise.model.trial import TrialPlan, TrialRecord
from pytest_infranoise.model.usage import MAX_USAGE_BYTES, USAGE_PATH, parse_usage
from pytest_infranoise.trial import separate, steps, verify
from pytest_infranoise.trial.context import TrialContext
from pytest_infranoise.trial.disk import full_disk
from pytest_infranoise.trial.host_disk import OWN_DEED, names_full_disk
from pytest_infranoise.trial.life import LiveTrial, await_health, put_instruction
from pytest_infranoise.trial.model_api import proof_of_api_error, table_for
from pytest_infranoise.trial.phases import PhaseRun

_EMPTY_SHM = "rm -rf /dev/shm/* /dev/shm/.[!.]* /dev/shm/..?*"


def run_trial(
    plan: TrialPlan, task: Task, image: PreparedImage, context: TrialContext
) -> TrialRecord:
    """Run one trial of a benchmark task from admission to record.

    Raises:
        AdmissionStoppedError: the session ended while the trial still waited.
    """
    with LiveTrial(plan, task, image, context) as trial:
        if task.steps:
            _run_steps(trial)
        elif trial.is_open:
            trial.verdict = _run_part(trial, task)
    return trial.record()


def _run_steps(trial: LiveTrial) -> None:
    """Work through a task's steps, until one falls short or leaves no answer."""
    verdicts: list[Verdict] = []
    for step in trial.task.steps:
        if not trial.is_open:
            return
        verdict = _run_part(trial, steps.task_of_step(trial.task, step), step)
        if verdict is None:  # a phase was the trial's end, so that there is no judgement
            return
        verdicts.append(verdict)
        if verdict.problem is not None or verdict.by_agent or steps.falls_short(verdict, step):
            break
    trial.verdict = steps.combine(
        verdicts, trial.task.reward_strategy, trial.context.pass_threshold
    )


def _run_part(trial: LiveTrial, task: Task, step: TaskStep | None = None) -> Verdict | None:
    """Run agent and tests once; return the verdict, None where it was never reached."""
    environment = (
        trial.environment if step is None else trial.environment | {"INFRA_STEP": step.name}
    )
    user = task.agent_user or trial.image.user
    with trial.phase(Phase.SETUP, step):
        if step is not None:
            verdict = _begin_step(trial, task, step, user)
            if verdict is not None:
                return verdict
        trial.context.agent.prepare(trial.sandbox, task)
    if not trial.is_open:
        return None
    timeout = trial.plan.agent_timeout_seconds
    if step is not None:
        timeout = agent_timeout(task, trial.plan.parameter_set)
    with trial.phase(Phase.AGENT, step) as phase:
        work = AgentStep(task, environment, timeout, user)
        result = trial.agent_result = trial.context.agent.run(trial.sandbox, work)
        phase.finish(result)
        phase.api_error = _api_error(trial, result)
        if isinstance(result, AgentResult):
            trial.note(*result.notes)
    if phase.ending is Ending.DEADLINE and trial.is_open and not trial.sandbox.is_alive():
        trial.note("what the agent ran could not be ended but with its whole sandbox")
        trial.end_sandbox()
    if not trial.is_open:
        trial.note_usage(None)
        return None
    verify_part = _verify if task.verifier is None else _verify_apart
    return verify_part(trial, task, environment, step)


def _begin_step(trial: LiveTrial, task: Task, step: TaskStep, user: str | None) -> Verdict | None:
    """Make a sandbox ready for a step; return a verdict where an agent made that impossible.

    Raises:
        SandboxError: it is not ready, and no agent is to blame.
    """
    sandbox, is_first = trial.sandbox, step is trial.task.steps[0]
    if not is_first:
        steps.clear_verification(sandbox)
    put_instruction(sandbox, task)
    try:
        steps.put_files(sandbox, task, step, user)
        await_health(sandbox, task, user)
    except SandboxError as error:
        verdict = None if is_first else steps.spoilt(sandbox, error)
        if verdict is None:
            raise
        return verdict
    return None


def _api_error(trial: LiveTrial, result: StepResult) -> str | None:
    """Return the agent's line that blames its model's provider; the oracle has no model."""
    agent = trial.context.agent
    return None if agent.is_reference else proof_of_api_error(result, table_for(agent.name))


def _take_usage(trial: LiveTrial) -> None:
    """Note what the agent says that it has used, in its result or in the file that it left.

    Only after leftovers were killed: in a sandbox without free memory, the reading could be what
    the kernel kills.
    """
    if trial.context.agent.is_reference:
        return
    result = trial.agent_result
    if isinstance(result, AgentResult) and result.usage is not None:
        trial.note_usage(result.usage)
        return
    content = trial.sandbox.read(USAGE_PATH, max_bytes=MAX_USAGE_BYTES + 1)
    usage, note = (None, None) if content is None else parse_usage(content)
    trial.note_usage(usage, note)


def _verify_apart(
    trial: LiveTrial, task: Task, environment: Mapping[str, str], step: TaskStep | None
) -> Verdict | None:
    """Take over what the verifier needs, end the agent's sandbox, verify in one of its own."""
    ends = step is None or step is trial.task.steps[-1]
    with tempfile.TemporaryDirectory(prefix="infranoise-") as folder:
        with trial.phase(Phase.VERIFY, step):
            if (task.leftovers or trial.context.leftovers) == "kill":
                trial.sandbox.kill_all()
            _take_usage(trial)
            separate.take_over(trial, task, Path(folder), ends=ends)
        if not trial.is_open:
            return None
        if ends:
            trial.end_sandbox()

        def examine(sandbox: Sandbox, image: PreparedImage, run: PhaseRun) -> Verdict:
            assert task.verifier is not None
            given = _verification(task, environment, step, image.user)
            workdir, is_in_place = task.verifier.sandbox.workdir, task.verifier.has_tests
            given = replace(given, workdir=workdir, is_in_place=is_in_place)
            return _examine(trial, sandbox, given, run)

        return separate.verify_apart(trial, task, step, Path(folder), examine)


def _verify(
    trial: LiveTrial, task: Task, environment: Mapping[str, str], step: TaskStep | None
) -> Verdict | None:
    """Verify in the sandbox in which the agent worked."""
    with trial.phase(Phase.VERIFY, step) as phase:
        if (task.leftovers or trial.context.leftovers) == "kill":
            trial.sandbox.kill_all()
            trial.sandbox.exec(
                [SHELL, "-c", _EMPTY_SHM],
                timeout_seconds=OWN_STEP_SECONDS,
                environment=OWN_ENVIRONMENT,
                workdir="/",
            )
        _take_usage(trial)
        separate.collect_all(trial, task)
        given = _verification(task, environment, step, trial.image.user)
        ends = step is None or step is trial.task.steps[-1]
        return _examine(trial, trial.sandbox, given, phase, ends=ends)
    return None


def _verification(
    task: Task, environment: Mapping[str, str], step: TaskStep | None, user: str | None
) -> verify.Verification:
    folders = () if task.tests is None else (task.tests,)
    return verify.Verification(
        tests=folders if step is None else step.tests,
        timeout_seconds=task.verifier_timeout_seconds,
        environment={**environment, **task.verifier_environment},
        workdir=task.workdir,
        user=task.verifier_user or user,
        files=task.test_files,
        script=task.test_script,
        grader=task.grader,
    )


def _examine(
    trial: LiveTrial,
    sandbox: Sandbox,
    given: verify.Verification,
    phase: PhaseRun,
    *,
    ends: bool = True,
) -> Verdict:
    """Run and judge the tests; with `ends` nothing is left running.

    Where the task's own disk limit kept them from an answer, or a disk of the host that the trial
    itself filled, the answer is no.
    """
    apart = sandbox if phase.in_verifier else None
    try:
        verify.put_tests(sandbox, given)
        result = verify.run_tests(sandbox, given)
        verdict = verify.judge(sandbox, given, result, trial.context.pass_threshold)
    except SandboxError as error:
        full = full_disk(sandbox)
        if full is None and names_full_disk(str(error)):
            full = _own_deed(trial, apart)
        if full is None:
            raise
        return Verdict(detail=full)
    if verdict.problem in (Cause.REWARD_MISSING, Cause.REWARD_INVALID):
        full = full_disk(sandbox)
        verdict = verdict if full is None else Verdict(detail=full)
    if not phase.in_verifier:
        verdict = verify.blame(sandbox, given, result, verdict)
    if ends:
        # What is still running could be killed after the last reading.
        sandbox.kill_all()
        verdict = _after_full_disk(trial, apart, verdict)
    phase.finish(result)
    phase.set_output(result.output.encode())
    return verdict


def _own_deed(trial: LiveTrial, apart: Sandbox | None) -> str | None:
    full = trial.prove_full_disk(apart)
    return OWN_DEED if full is not None and full.filled_by == "trial" else None


def _after_full_disk(trial: LiveTrial, apart: Sandbox | None, verdict: Verdict) -> Verdict:
    """Return the verdict: no, where a disk that the trial filled left the tests without answer."""
    own = _own_deed(trial, apart)
    gave_none = verdict.problem in (Cause.REWARD_MISSING, Cause.REWARD_INVALID)
    return verdict if own is None or not gave_none else Verdict(detail=own)
