"""What a suite's own hooks say, brought into the shapes that the rest of the plugin works with.

A hook that fails must not take a study along: it costs the trial in which it failed, or a line.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_infranoise.agents.base import ON_HOST, AgentStep
from pytest_infranoise.backends.base import Sandbox, StepResult
from pytest_infranoise.errors import SandboxError, UsageError
from pytest_infranoise.model.outcome import Cause, Classification
from pytest_infranoise.model.task import Task
from pytest_infranoise.plugin.hookspecs import HOOK_AGENT


@dataclass(frozen=True, slots=True)
class HookAgent:
    """The agent that is `pytest_infra_run_agent`.

    Raises:
        UsageError: no conftest has that hook.
    """

    config: pytest.Config
    name: str
    is_reference: bool = False
    settings: Mapping[str, Any] = field(default_factory=lambda: {"location": ON_HOST})

    def __post_init__(self) -> None:
        if not self.config.hook.pytest_infra_run_agent.get_hookimpls():
            raise UsageError(
                f"--infra-agent={self.name}: no conftest.py that was read has the hook "
                "pytest_infra_run_agent; write it in the conftest.py at the root of the run"
            )

    def check(self, task: Task) -> None:
        """Which tasks it can work on only the hook itself knows."""

    def prepare(self, sandbox: Sandbox, task: Task) -> None:
        """Nothing is needed."""

    def run(self, sandbox: Sandbox, step: AgentStep) -> StepResult:
        """Ask the hooks; the first answer counts."""
        began = time.monotonic()
        try:
            result = self.config.hook.pytest_infra_run_agent(
                config=self.config, task=step.task, sandbox=sandbox, step=step
            )
        except SandboxError:
            raise
        except Exception as error:
            raise SandboxError(Cause.HARNESS, f"pytest_infra_run_agent: {_said(error)}") from error
        if isinstance(result, StepResult):
            return result
        if result is not None:
            raise SandboxError(
                Cause.HARNESS,
                f"pytest_infra_run_agent returned {type(result).__name__}, not a StepResult",
            )
        waited = time.monotonic() - began
        raise SandboxError(
            Cause.HARNESS, f"no pytest_infra_run_agent took the task ({waited:.1f} s)"
        )


def is_hook_agent(text: str) -> bool:
    """Whether `--infra-agent` names the suite's own agent."""
    return text == HOOK_AGENT or text.startswith(f"{HOOK_AGENT}:")


def hook_agent(config: pytest.Config, text: str) -> HookAgent:
    """Return the suite's own agent, as `hook` or `hook:NAME` names it."""
    return HookAgent(config, text.partition(":")[2].strip() or HOOK_AGENT)


def classifier(
    config: pytest.Config,
) -> Callable[..., tuple[Classification, str | None]] | None:
    """Return how the suite judges trials, None where it leaves that to us."""
    hook = config.hook.pytest_infra_classify
    if not hook.get_hookimpls():
        return None

    def reclassify(
        *, classification: Classification, **facts: Any
    ) -> tuple[Classification, str | None]:
        try:
            found = hook(config=config, classification=classification, **facts)
        except Exception as error:  # noqa: BLE001 - the trial's own outcome stands
            return classification, f"pytest_infra_classify failed: {_said(error)}"
        if found is None or found == classification:
            return classification, None
        if not isinstance(found, Classification):
            kind = type(found).__name__
            return classification, f"pytest_infra_classify returned {kind}, not a Classification"
        return found, f"the suite's own verdict; by the rules it was {_words(classification)}"

    return reclassify


def collector(config: pytest.Config) -> Callable[[Path], Task | None] | None:
    """Return how the suite reads task files of its own, None where it has none."""
    hook = config.hook.pytest_infra_collect_task
    if not hook.get_hookimpls():
        return None

    def collect(path: Path) -> Task | None:
        try:
            task = hook(config=config, path=path)
        except UsageError:
            raise
        except Exception as error:
            raise UsageError(f"{path}: pytest_infra_collect_task: {_said(error)}") from error
        if task is not None and not isinstance(task, Task):
            kind = type(task).__name__
            raise UsageError(f"{path}: pytest_infra_collect_task returned {kind}, not a Task")
        return task

    return collect


def suite_facts(config: pytest.Config) -> dict[str, Any]:
    """Return what the suite adds to the manifest.

    Raises:
        UsageError: a hook fails, or returns no mapping.
    """
    facts: dict[str, Any] = {}
    try:
        answers = config.hook.pytest_infra_manifest(config=config)
    except Exception as error:
        raise UsageError(f"pytest_infra_manifest: {_said(error)}") from error
    for answer in reversed(answers):  # pluggy calls what was registered last first
        if not isinstance(answer, Mapping):
            raise UsageError(f"pytest_infra_manifest returned {type(answer).__name__}, not a dict")
        facts.update(answer)
    return facts


def announce(config: pytest.Config, record: Mapping[str, Any]) -> str | None:
    """Tell the suite of a finished trial; return what went wrong, if anything."""
    try:
        config.hook.pytest_infra_trial_finished(config=config, record=record)
    except Exception as error:  # noqa: BLE001 - the record is safe; the rest of the study goes on
        return f"pytest_infra_trial_finished: {_said(error)}"
    return None


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _words(classification: Classification) -> str:
    cause = f" ({classification.cause})" if classification.cause else ""
    return f"{classification.outcome}{cause}"
