"""Hooks for suites that bring their own agent, task format, verdict or records.

Write them in the `conftest.py` at the root of the run (a `conftest.py` in a folder below is not
read by the process that reads the tasks). Every process of a run calls them, except where it says
otherwise. Hooks may take fewer arguments than are listed here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_infranoise.agents.base import AgentStep
    from pytest_infranoise.backends.base import Sandbox, StepResult
    from pytest_infranoise.model.outcome import Classification, Evidence
    from pytest_infranoise.model.task import Task
    from pytest_infranoise.model.trial import PhaseRecord, TrialPlan

HOOK_AGENT = "hook"
"""How `--infra-agent` calls the agent that is `pytest_infra_run_agent`."""


@pytest.hookspec(firstresult=True)
def pytest_infra_run_agent(
    config: pytest.Config, task: "Task", sandbox: "Sandbox", step: "AgentStep"
) -> "StepResult | None":
    """Work on a task; the first answer that is not None is the agent phase.

    Used with `--infra-agent=hook` or `hook:NAME`, NAME being what reports call the agent, and where
    no agent is named at all. `sandbox.exec` returns a `StepResult`; return the last one, or one of
    your own: `StepResult(Ending.EXIT, exit_code, seconds, output)`. `step` holds environment, user
    and deadline of the phase; a command that is given `timeout_seconds` and runs into it has the
    ending `deadline`, which is the trial's timeout. What runs on the host (calls of a model, say)
    is not limited, only what `sandbox` runs. A trial to which nobody answers is an `infra_error`.

    Example:
        def pytest_infra_run_agent(task, sandbox, step):
            return sandbox.exec(
                ["sh", "-c", "echo done > /app/done"],
                timeout_seconds=step.timeout_seconds,
                environment=step.environment,
                workdir=task.workdir,
                user=step.user,
            )
    """


@pytest.hookspec(firstresult=True)
def pytest_infra_collect_task(config: pytest.Config, path: Path) -> "Task | None":
    """Return the task that a file describes, or None; called for every file outside of tasks.

    The folder of such a file is a task folder: nothing else in it is collected, and its trials are
    called `FOLDER/FILE::3x-s1`. It is also asked about each `task.toml`, before that is read as
    usual. The task's name and folder are filled in. Everything that can change the outcome
    belongs into the digest; raise `UsageError` to refuse a file with one line.

    Example:
        from pytest_infranoise import ImageSource, ResourceSpec, Task, directory_digest

        def pytest_infra_collect_task(path):
            if path.name == "job.txt":
                return Task(
                    name="",
                    digest=directory_digest(path.parent),
                    spec=ResourceSpec.declared(32 * 1024**2, None),
                    image=ImageSource(build_context=path.parent / "environment"),
                    instruction=path.read_text(),
                    solution=path.parent / "solution",
                    tests=path.parent / "tests",
                    agent_timeout_seconds=60,
                )
    """


@pytest.hookspec(firstresult=True)
def pytest_infra_classify(
    config: pytest.Config,
    task: "Task",
    plan: "TrialPlan",
    evidence: "Evidence",
    phases: "Sequence[PhaseRecord]",
    classification: "Classification",
) -> "Classification | None":
    """Return another outcome for a trial, or None to leave `classification` as it is.

    This is also how the tables of verifications that never began, and of refusals of the model's
    provider, are extended. `phases` hold what each phase printed (`output`). A trial whose outcome
    was changed here has a note that says so. Of a marked test it is asked twice, as if that had
    failed and as if it had passed, since pytest's last report on the test comes later.

    Example:
        from pytest_infranoise import Cause, Classification, Outcome

        def pytest_infra_classify(phases, classification):
            if classification.outcome is Outcome.FAILED:
                for phase in phases:
                    if phase.phase == "verify" and "licence server is down" in phase.output:
                        return Classification.infra(
                            Cause.VERIFIER_BOOTSTRAP, "licence server is down"
                        )
    """


@pytest.hookspec
def pytest_infra_trial_finished(config: pytest.Config, record: Mapping[str, Any]) -> None:
    """Take note of a finished trial; called by the process that keeps the study.

    Once per trial, and once more for each attempt that its model's provider refused.

    `record` is what stands in `trials.jsonl`, as dicts, lists, text and numbers.

    Example:
        def pytest_infra_trial_finished(config, record):
            with open(config.rootpath / "outcomes.txt", "a") as file:
                print(record["task"], record["parameter_set"], record["outcome"], file=file)
    """


@pytest.hookspec
def pytest_infra_manifest(config: pytest.Config) -> Mapping[str, Any] | None:
    """Return facts that belong into the study's manifest, as text, numbers, lists and dicts.

    They stand under `suite`. Where two conftests name the same key, the one nearer to the root is
    overruled. Never return secrets.

    Example:
        def pytest_infra_manifest(config):
            return {"model": "some-model-2", "temperature": 0.7}
    """
