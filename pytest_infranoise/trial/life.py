"""A trial between admission and record."""

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from pytest_infranoise.admission import Waiting, request_for, take_cpus
from pytest_infranoise.agents.base import INSTRUCTION_PATH
from pytest_infranoise.agents.shell import missing_bash
from pytest_infranoise.backends.base import (
    HasServices,
    Placement,
    Sandbox,
    SandboxRequest,
    StepResult,
)
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.enforcement import thread_environment, whole_cores
from pytest_infranoise.model.outcome import (
    Cause,
    Classification,
    Counters,
    Ending,
    Evidence,
    Phase,
    Verdict,
    classify,
    increase,
)
from pytest_infranoise.model.resources import Allocation
from pytest_infranoise.model.task import MAIN_SERVICE, PreparedImage, Task, TaskStep
from pytest_infranoise.model.trial import TrialPlan, TrialRecord
from pytest_infranoise.model.usage import Usage
from pytest_infranoise.trial.beginning import begin
from pytest_infranoise.trial.context import TrialContext
from pytest_infranoise.trial.folders import first_folders, instruction
from pytest_infranoise.trial.healthcheck import wait_until_healthy
from pytest_infranoise.trial.host_disk import FullDisk, HostDisk, names_full_disk
from pytest_infranoise.trial.outage import judge_outage, name_outage
from pytest_infranoise.trial.phases import PhaseRun, merge_setup, utc_now
from pytest_infranoise.trial.policing import PolicedSandbox, police
from pytest_infranoise.trial.record import Observed, make_record


class LiveTrial:
    """A trial between admission and record, as a context manager.

    Entering waits for admission and opens the sandbox (the setup phase); leaving closes both (the
    teardown phase). A provider's failure ends the phase in which it happens and is evidence, not an
    exception; `is_open` says whether there is still a sandbox to work in.
    """

    def __init__(
        self, plan: TrialPlan, task: Task, image: PreparedImage, context: TrialContext
    ) -> None:
        self.plan = plan
        self.task = task
        self.image = image
        self.context = context
        self.environment = _trial_environment(plan, task)
        self.agent_result: StepResult | None = None
        self._sandbox: Sandbox | None = None
        self._engine_sandbox: Sandbox | None = None
        self._police: PolicedSandbox | None = None
        self._observed = Observed()
        self._phases: list[PhaseRun] = []
        self._stack = ExitStack()
        self._began = 0.0
        self._disk: HostDisk | None = None
        self._proven_full: FullDisk | None = None

    @property
    def sandbox(self) -> Sandbox:
        """The open sandbox.

        Raises:
            SandboxError: it is not open (any more).
        """
        if self._sandbox is None:
            raise SandboxError(Cause.SANDBOX_LOST, "the sandbox is closed")
        return self._sandbox

    @property
    def is_open(self) -> bool:
        """Whether a phase can still run: the sandbox stands and no phase was the trial's end."""
        final = (Ending.LOST, Ending.ERROR, Ending.OOM_POLICY)
        failed = any(run.ending in final for run in self._phases)
        return self._sandbox is not None and not failed

    @property
    def was_ended(self) -> bool:
        """Whether a kill has ended the trial under the oom policy `container`."""
        return self._police is not None and self._police.has_ended

    @property
    def last_counters(self) -> Counters:
        """The last reading of the sandbox's counters."""
        return self._observed.counters

    @property
    def verdict(self) -> Verdict | None:
        """The judgement on the trial, None before and without one."""
        return self._observed.verdict

    @verdict.setter
    def verdict(self, verdict: Verdict | None) -> None:
        self._observed.verdict = verdict

    def note(self, *notes: str) -> None:
        """Add notes to the trial's record."""
        self._observed.notes.extend(notes)

    def note_usage(self, usage: Usage | None, note: str | None = None) -> None:
        """Note what a run of the agent says that it has used; None is unknown."""
        self._observed.usages.append(usage)
        if note is not None:
            self.note(note)

    def open(self) -> None:
        """Wait for admission and open the sandbox: the setup phase.

        Raises:
            AdmissionStoppedError: the session ended meanwhile.
            UsageError: the guarantee never fits the budget.
        """
        try:
            self._admit()
            self._observed.started_at = utc_now()
            self._began = time.monotonic()
            self._disk = HostDisk(self.context.backend.info)
            with self.phase(Phase.SETUP):
                self._open()
        except BaseException:
            self._stack.close()
            raise

    def end_sandbox(self) -> None:
        """Remove the sandbox in which the agent worked, before the trial itself is over."""
        if self._sandbox is not None:
            self._sandbox.close()
        self._sandbox = None

    def service(self, name: str) -> Sandbox:
        """Return the sandbox of one of the task's services.

        Raises:
            SandboxError: there is none of this name, or it has ended.
        """
        if name == MAIN_SERVICE:
            return self.sandbox
        if not isinstance(self._engine_sandbox, HasServices):
            raise SandboxError(Cause.HARNESS, f"the task has no service {name}")
        return self._engine_sandbox.service(name)

    def keep(self, run: PhaseRun, facts: Mapping[str, Any]) -> None:
        """Take over a phase that ran in the verifier's own sandbox, and what is known of that."""
        self._phases.append(run)
        self._observed.verifier = facts

    def close(self) -> None:
        """Remove the sandbox and give the guarantee back: the teardown phase; safe to repeat."""
        if self._observed.wall_seconds is not None:
            return
        teardown = PhaseRun(Phase.TEARDOWN, self._observed.counters)
        self._stack.close()
        self._sandbox = None
        teardown.close()
        self._phases.append(teardown)
        self._observed.wall_seconds = time.monotonic() - self._began

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @contextmanager
    def phase(self, phase: Phase, step: TaskStep | None = None) -> Iterator[PhaseRun]:
        """Run the body as (part of) a phase and read the counters at its end.

        `step` is the one that the phase belongs to, of a task of several steps. A `SandboxError` in
        the body ends the phase and is kept as evidence.
        """
        run = PhaseRun(phase, self._observed.counters, None if step is None else step.name)
        try:
            yield run
        except SandboxError as error:
            run.fail(self.name_failure(error))
        run.close()
        self._note_full_disk()
        self._observed.counters = run.after = read_counters(self._sandbox, run)
        if self._police is not None:
            run.victim = self._police.take_victim()
            if self._police.has_ended:
                run.end_by_policy(run.victim)
        self._phases.append(run)

    def name_failure(self, error: SandboxError, verifier: Sandbox | None = None) -> SandboxError:
        """Return a provider's failure under the cause that the engine and its disk show it to have.

        `verifier` is the verifier's own sandbox, if one stands.
        """
        if names_full_disk(str(error)):
            for sandbox in (self._engine_sandbox if self._sandbox else None, verifier):
                if sandbox is not None:
                    with suppress(SandboxError):
                        sandbox.kill_all()
            full = self.prove_full_disk(verifier)
            if full is not None and full.filled_by == "others":
                return SandboxError(Cause.HOST_DISK, f"{full.words}; {error}")
        return name_outage(error, self.context.backend)

    def prove_full_disk(self, verifier: Sandbox | None = None) -> FullDisk | None:
        """Look whether the host's disk is full, when nothing of the trial runs any more.

        A file that has no name any more, but is open, is in no sum; without processes there is
        none. `verifier` is the verifier's own sandbox, if one stands.
        """
        full = self._look_at_disk(verifier)
        if full is not None:
            self._proven_full = full
            self._note_once(full.words)
        return full

    def _look_at_disk(self, verifier: Sandbox | None = None) -> FullDisk | None:
        if self._disk is None:
            return None
        own = None if self._sandbox is None else self._engine_sandbox
        return self._disk.look([item for item in (own, verifier) if item is not None])

    def _note_full_disk(self) -> None:
        full = self._look_at_disk()
        if full is not None:
            self._note_once(full.words)

    def _note_once(self, words: str) -> None:
        start = words.partition(";")[0]
        if not any(note.startswith(start) for note in self._observed.notes):
            self.note(words)

    def _host_disk(self) -> str | None:
        """Say that others filled the host's disk, if a program of the trial said that it met it."""
        full = self._proven_full
        if full is None or full.filled_by != "others":
            return None
        met = any(names_full_disk(run.output) for run in self._phases)
        return full.words if met else None

    def record(self, classification: Classification | None = None) -> TrialRecord:
        """Return the trial's record; the classification is made from the evidence."""
        plan, allocation = self.plan, self.plan.allocation
        phases = merge_setup(self._phases)
        evidence = Evidence(
            phases=[run.evidence() for run in phases],
            verdict=self.verdict,
            memory_is_capped=allocation.memory_limit_bytes is not None,
            host_disk=self._host_disk(),
        )
        kept = tuple(run.record() for run in phases)
        judged = judge_outage(classification or classify(evidence), self.context.backend)
        note = None
        if self.context.reclassify is not None:
            judged, note = self.context.reclassify(
                task=self.task, plan=plan, evidence=evidence, phases=kept, classification=judged
            )
        return make_record(
            plan,
            self._observed,
            kept,
            judged,
            image_digest=self.image.digest,
            worker=self.context.worker,
            notes=(*allocation.notes, *self.image.notes, *((note,) if note else ())),
        )

    def _admit(self) -> None:
        request = request_for(
            self.plan.allocation,
            self.context.budget,
            admit=self.context.admit,
            label=f"{self.plan.task} {self.plan.id}",
        )
        self._observed.grant = self._stack.enter_context(
            self.context.ledger.admit(
                request,
                budget=self.context.budget,
                should_stop=self.context.should_stop,
                tell=self._tell_wait,
            )
        )

    def _tell_wait(self, waiting: Waiting) -> None:
        context = self.context
        context.tell_wait(waiting.words(context.budget, context.ledger.name))

    def _open(self) -> None:
        context, allocation = self.context, self.plan.allocation
        request = self.request(self.task, self.image, allocation)
        with _instruction(self.task) as placements:
            sandbox = context.backend.open(
                replace(request, placements=(*request.placements, *placements))
            )
        self._engine_sandbox = sandbox
        self._police = police(
            sandbox, context.enforcement, allocation.memory_limit_bytes, context.backend.info
        )
        sandbox = self._police or sandbox
        self._stack.callback(sandbox.close)
        self._sandbox = sandbox
        self._observed.effective = sandbox.effective_limits()
        self._observed.seen = sandbox.seen()
        if (note := missing_bash(sandbox, self.task)) is not None:
            self.note(note)
        begin(sandbox, self.task, self.image)
        await_health(self.sandbox, self.task, self.image.user)

    def request(
        self, task: Task, image: PreparedImage, allocation: Allocation, *, part: str = ""
    ) -> SandboxRequest:
        """Return what a sandbox of this trial is opened with; `part` ends its name."""
        context, enforcement = self.context, self.context.enforcement
        environment = {**task.environment, **context.environment}
        cpus = None
        if enforcement.visible == "limit":
            environment = {**thread_environment(allocation.cpu_limit_cores), **environment}
            count, info = whole_cores(allocation.cpu_limit_cores), context.backend.info
            cpus = None if count is None else take_cpus(info.cpus, count, info.engine_id)
        return SandboxRequest(
            study=self.plan.study,
            trial=_sandbox_name(self.plan) + part,
            owner=context.owner,
            task=task,
            image=image,
            allocation=allocation if part else enforcement.for_engine(allocation),
            environment=environment,
            masked_paths=context.masked_paths,
            enforcement=enforcement,
            ceiling_bytes=context.ceiling_bytes,
            cpus=cpus,
            placements=first_folders(),
        )


def read_counters(sandbox: Sandbox | None, run: PhaseRun) -> Counters:
    """Return the counters at a phase's end; what cannot be read (any more) is unknown."""
    if sandbox is None:
        return Counters()
    try:
        counters = sandbox.counters()
        hint = run.hints_at_kill or counters.limit_reached
        if hint and not increase(run.before.oom_kills, counters.oom_kills):
            counters = sandbox.counters(expect_kill=True)
        return counters
    except SandboxError as error:
        if run.ending is Ending.EXIT:
            run.fail(error)
        return Counters()


def await_health(sandbox: Sandbox, task: Task, user: str | None) -> None:
    """Wait until the task's own check passes, if it has one.

    Raises:
        SandboxError: it never did.
    """
    if task.healthcheck is not None:
        wait_until_healthy(sandbox, task.healthcheck, workdir=task.workdir, user=user)


@contextmanager
def _instruction(task: Task) -> Iterator[list[Placement]]:
    """Where a task's instruction goes, while its file is there; nothing for a task without one."""
    if task.instruction is None:
        yield []
        return
    with tempfile.TemporaryDirectory(prefix="infranoise-") as folder:
        file = Path(folder) / "instruction.md"
        file.write_text(task.instruction, encoding="utf-8")
        yield instruction(file)


def put_instruction(sandbox: Sandbox, task: Task) -> None:
    """Lay the instruction of a task, or of one of its steps, into an open sandbox."""
    with _instruction(task) as placements:
        sandbox.place(placements)


def _trial_environment(plan: TrialPlan, task: Task) -> dict[str, str]:
    """Return what a step is told: never the parameter set, which the agent must not know."""
    environment = {
        "INFRA_TASK": plan.task,
        "INFRA_SAMPLE": str(plan.sample),
        "INFRA_SEED": str(plan.seed),
    }
    if task.instruction is not None:
        environment["INFRA_INSTRUCTION"] = INSTRUCTION_PATH
    return environment


def _sandbox_name(plan: TrialPlan) -> str:
    """Return a name for the sandbox, unique within the study."""
    return f"{plan.task}::{plan.id}-a{plan.attempt}"
