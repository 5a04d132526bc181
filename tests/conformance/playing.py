"""Playing a scenario on an engine: one real trial, from admission to record."""

import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outside import Outside
from sandboxes import BUSYBOX, PYTHON
from scenario import Scenario

from pytest_infranoise.admission import AdmissionLedger, default_budget
from pytest_infranoise.agents.base import AgentStep
from pytest_infranoise.agents.builtin import OracleAgent
from pytest_infranoise.backends.base import Backend, EngineInfo, Sandbox, StepResult
from pytest_infranoise.model.resources import (
    ONE,
    Allocation,
    Multiplier,
    ParameterSet,
    ResourceSpec,
)
from pytest_infranoise.model.task import ImageSource, PreparedImage, Task
from pytest_infranoise.model.trial import TrialPlan, TrialRecord
from pytest_infranoise.trial import TrialContext, run_trial
from pytest_infranoise.units import MIB

_MEANWHILE_SECONDS = 60.0


def engine_key(info: EngineInfo) -> str:
    """Return the table's column of an engine (a key of `scenario.ENGINES`)."""
    if info.enforcement == "watchdog":
        return "watchdog"
    suffix = "-user" if info.details.get("user_namespace") else ""
    return f"{info.backend}-v{info.cgroup_version}{suffix}"


def engine_facts(info: EngineInfo) -> dict[str, Any]:
    """Return what an engine is, without anything that changes from run to run."""
    details = info.details
    return {
        "engine": info.engine,
        "kernel": details.get("kernel_version") or details.get("kernel"),
        "cgroup_version": info.cgroup_version,
        "cgroup_driver": details.get("cgroup_driver"),
        "enforcement": info.enforcement,
        "as": "an ordinary user" if details.get("user_namespace") else "root",
    }


def play(scenario: Scenario, backend: Backend, folder: Path) -> TrialRecord:
    """Run one trial of a scenario and return its record.

    Raises:
        AssertionError: what had to happen from outside did not happen.
    """
    task = _make_task(scenario, folder)
    study = f"conformance-{uuid.uuid4().hex[:12]}"
    agent = ScenarioAgent(scenario, backend, study)
    ledger = AdmissionLedger(backend.info.engine_id, folder / "ledger")
    ceiling = scenario.ceiling_mib
    context = TrialContext(
        backend,
        agent,
        ledger,
        default_budget(backend.info.capacity),
        "main",
        "conformance",
        enforcement=scenario.enforcement,
        ceiling_bytes=None if ceiling is None else ceiling * MIB,
    )
    try:
        record = run_trial(_plan(scenario, study, task), task, _image(task, backend), context)
    finally:
        agent.finish()
        left = backend.sweep(study)
    assert left == 0, f"{left} sandbox(es) were left behind"
    assert not agent.problems, f"from outside: {agent.problems}"
    return record


def _make_task(scenario: Scenario, folder: Path) -> Task:
    for name, script, text in (
        ("solution", "solve.sh", scenario.agent),
        ("tests", "test.sh", scenario.verify),
    ):
        place = folder / name / script
        place.parent.mkdir(parents=True)
        first = "" if text.startswith("#!") else "#!/bin/sh\n"
        place.write_text(f"{first}{text}\n", encoding="utf-8")
        place.chmod(0o755)
    image = PYTHON if scenario.program == "python3" else BUSYBOX
    return Task(
        name=scenario.name.replace("/", "-"),
        digest="0",
        spec=ResourceSpec.declared((scenario.memory_mib or 32) * MIB, scenario.cpu),
        image=ImageSource(docker_image=scenario.image or image),
        directory=folder,
        solution=folder / "solution",
        tests=folder / "tests",
        verifier_timeout_seconds=scenario.verify_deadline,
        workdir="/tmp",
    )


def _plan(scenario: Scenario, study: str, task: Task) -> TrialPlan:
    limit = None if scenario.memory_mib is None else scenario.memory_mib * MIB
    # No guarantee of CPU: its small weight would leave nothing to throttle on a busy host.
    given = Allocation(task.spec.memory_guarantee_bytes, limit, None, scenario.cpu)
    multiplier = Multiplier(None) if limit is None else ONE
    return TrialPlan(
        study=study,
        task=task.name,
        parameter_set=ParameterSet.joint(multiplier),
        sample=1,
        block=0,
        position=0,
        seed=1,
        requested=given,
        allocation=given,
        agent_timeout_seconds=scenario.deadline,
    )


def _image(task: Task, backend: Backend) -> PreparedImage:
    # An image that is missing is found out by the trial itself, as it was removed since.
    name = task.image.docker_image
    if backend.info.backend == "docker" and name is not None and name.startswith("no-such"):
        return PreparedImage(name)
    return backend.prepare(task, lambda line: None)


@dataclass
class ScenarioAgent:
    """The oracle, with the scenario's hand in it: the setup, and what happens from outside."""

    scenario: Scenario
    backend: Backend
    study: str
    name: str = "oracle"
    is_reference: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    _oracle: OracleAgent = field(default_factory=OracleAgent)
    _thread: threading.Thread | None = None

    def check(self, task: Task) -> None:
        self._oracle.check(task)

    def prepare(self, sandbox: Sandbox, task: Task) -> None:
        self._oracle.prepare(sandbox, task)
        if self.scenario.setup is not None:
            sandbox.exec(["sh", "-c", self.scenario.setup])
        if self.scenario.before is not None:
            self._noting(self.scenario.before, self._outside(sandbox))

    def run(self, sandbox: Sandbox, step: AgentStep) -> StepResult:
        if self.scenario.meanwhile is not None:
            work = (self._when_begun, self._outside(sandbox))
            self._thread = threading.Thread(target=self._noting, args=work)
            self._thread.start()
        return self._oracle.run(sandbox, step)

    def finish(self) -> None:
        """Wait until what happens from outside has happened."""
        if self._thread is not None:
            self._thread.join(_MEANWHILE_SECONDS)
            if self._thread.is_alive():
                self.problems.append("it did not end")

    def _outside(self, sandbox: Sandbox) -> Outside:
        ceiling = self.scenario.ceiling_mib
        return Outside(
            self.backend, sandbox, self.study, None if ceiling is None else ceiling * MIB
        )

    def _when_begun(self, outside: Outside) -> None:
        outside.wait_for("/tmp/begun")
        assert self.scenario.meanwhile is not None
        self.scenario.meanwhile(outside)

    def _noting(self, work: Callable[[Outside], None], outside: Outside) -> None:
        # Whatever fails here is the scenario's failure, never the trial's evidence.
        try:
            work(outside)
        except Exception as error:  # noqa: BLE001
            self.problems.append(f"{type(error).__name__}: {error}")
