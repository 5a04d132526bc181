"""One trial's life: admission, sandbox, phases, evidence, record.

`run_trial` is the life of a benchmark task's trial; a Python test's trial drives the same
`LiveTrial` from a fixture. Whatever happens inside, the guarantee is given back and the sandbox is
removed; a trial that is interrupted leaves no record.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pytest_infranoise import verify
from pytest_infranoise.admission import AdmissionLedger, Admit, Budget, Grant, request_for
from pytest_infranoise.agents.base import INSTRUCTION_PATH, Agent, AgentStep
from pytest_infranoise.backends.base import (
    Backend,
    EffectiveLimits,
    Sandbox,
    SandboxRequest,
    StepResult,
)
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import (
    Cause,
    Classification,
    Counters,
    Ending,
    Evidence,
    Phase,
    PhaseEvidence,
    Verdict,
    classify,
    increase,
)
from pytest_infranoise.model.task import Leftovers, PreparedImage, Task
from pytest_infranoise.model.trial import PhaseRecord, TrialPlan, TrialRecord

_SETUP_SCRIPT = """
mkdir -p /logs/agent /logs/verifier /logs/artifacts && chmod 777 /logs /logs/*
nproc 2>/dev/null || echo unknown
while read -r name kib unit; do
  case $name in MemTotal:|MemAvailable:) echo "$name $kib" ;; esac
done </proc/meminfo
"""

_EMPTY_SHM = "rm -rf /dev/shm/* /dev/shm/.[!.]* /dev/shm/..?*"


FRESH = Counters(oom_kills=0, limit_hits=0, cpu_seconds=0.0, cpu_periods=0, throttled_periods=0)
"""Where the counters of a new cgroup start."""


@dataclass(frozen=True, slots=True)
class TrialContext:
    """What all trials of one process share.

    `admit` says whether the guarantee or the kill threshold is reserved on the host. `environment`
    holds host variables that the user passes through by name; their values are never recorded.
    `should_stop` is asked while a trial waits for admission.
    """

    backend: Backend
    agent: Agent
    ledger: AdmissionLedger
    budget: Budget
    worker: str
    owner: str
    admit: Admit = "guarantee"
    leftovers: Leftovers = "keep"
    pass_threshold: float = 1.0
    environment: Mapping[str, str] = field(default_factory=dict)
    masked_paths: Sequence[Path] = ()
    should_stop: Callable[[], bool] = lambda: False


def run_trial(
    plan: TrialPlan, task: Task, image: PreparedImage, context: TrialContext
) -> TrialRecord:
    """Run one trial of a benchmark task from admission to record.

    Raises:
        AdmissionStoppedError: the session ended while the trial still waited.
    """
    with LiveTrial(plan, task, image, context) as trial:
        if trial.is_open and _prepare_agent(trial):
            _run_agent(trial)
            if trial.is_open:
                _verify(trial)
    return trial.record()


def _prepare_agent(trial: "LiveTrial") -> bool:
    with trial.phase(Phase.SETUP):
        trial.context.agent.prepare(trial.sandbox, trial.task)
    return trial.is_open


def _run_agent(trial: "LiveTrial") -> None:
    step = AgentStep(
        trial.task,
        trial.environment,
        trial.plan.agent_timeout_seconds,
        trial.task.agent_user or trial.image.user,
    )
    with trial.phase(Phase.AGENT) as phase:
        phase.finish(trial.context.agent.run(trial.sandbox, step))


def _verify(trial: "LiveTrial") -> None:
    with trial.phase(Phase.VERIFY) as phase:
        if (trial.task.leftovers or trial.context.leftovers) == "kill":
            trial.sandbox.kill_all()
            trial.sandbox.exec(["sh", "-c", _EMPTY_SHM])
        verify.put_tests(trial.sandbox, trial.task)
        user = trial.task.verifier_user or trial.image.user
        result = verify.run_tests(trial.sandbox, trial.task, trial.environment, user)
        trial.verdict = verify.read_verdict(trial.sandbox, trial.context.pass_threshold)
        output = trial.sandbox.read(verify.OUTPUT, max_bytes=phase.output_limit_bytes + 1)
        # What is still running could be killed after the last reading.
        trial.sandbox.kill_all()
        phase.finish(result)
        phase.set_output(output or b"")


class PhaseRun:
    """A phase while it lasts: collects what happened, becomes evidence and record at its end."""

    output_limit_bytes = 16 * 1024

    def __init__(self, phase: Phase, before: Counters) -> None:
        self.phase = phase
        self.before = before
        self.after = before
        self.started_at = utc_now()
        self.ending = Ending.EXIT
        self.exit_code: int | None = None
        self.wall_seconds: float | None = None
        self.output = ""
        self.output_truncated = False
        self.error: str | None = None
        self.error_cause: Cause | None = None
        self._began = time.monotonic()

    def finish(self, result: StepResult) -> None:
        """Take over what became of the phase's main step."""
        self.ending = result.ending
        self.exit_code = result.exit_code
        self.wall_seconds = result.wall_seconds
        self.output = result.output
        self.output_truncated = result.output_truncated

    def fail(self, error: SandboxError) -> None:
        """Note that the provider, not a command, failed."""
        self.error = str(error)
        self.error_cause = Cause(error.cause)
        lost = self.error_cause is Cause.SANDBOX_LOST
        self.ending = Ending.LOST if lost else Ending.ERROR

    def set_output(self, content: bytes) -> None:
        """Keep the end of a log file as the phase's output."""
        self.output_truncated = len(content) > self.output_limit_bytes
        self.output = content[-self.output_limit_bytes :].decode("utf-8", "replace")

    def close(self) -> None:
        """Stop the clock, unless a step's own time stands already."""
        if self.wall_seconds is None:
            self.wall_seconds = time.monotonic() - self._began

    @property
    def hints_at_kill(self) -> bool:
        """Whether something suggests a kill that the counter may not show yet."""
        return self.ending is not Ending.EXIT or self.exit_code not in (0, None)

    def evidence(self) -> PhaseEvidence:
        """Return the facts that decide the outcome."""
        return PhaseEvidence(
            phase=self.phase,
            ending=self.ending,
            exit_code=self.exit_code,
            oom_kills=increase(self.before.oom_kills, self.after.oom_kills),
            oom_kills_source=self.after.source,
            limit_reached=self.after.limit_reached,
            error_cause=self.error_cause,
            error=self.error,
        )

    def record(self) -> PhaseRecord:
        """Return what the journal keeps of the phase."""
        before, after = self.before, self.after
        return PhaseRecord(
            phase=self.phase.value,
            ending=self.ending.value,
            started_at=self.started_at,
            wall_seconds=self.wall_seconds or 0.0,
            exit_code=self.exit_code,
            oom_kills=increase(before.oom_kills, after.oom_kills),
            oom_kills_source=after.source,
            limit_reached=after.limit_reached,
            limit_hits=increase(before.limit_hits, after.limit_hits),
            memory_peak_bytes=after.memory_peak_bytes,
            memory_working_set_bytes=after.memory_working_set_bytes,
            cpu_seconds=_rise(before.cpu_seconds, after.cpu_seconds),
            cpu_periods=increase(before.cpu_periods, after.cpu_periods),
            throttled_periods=increase(before.throttled_periods, after.throttled_periods),
            throttled_seconds=_rise(before.throttled_seconds, after.throttled_seconds),
            output=self.output,
            output_truncated=self.output_truncated,
            error=self.error,
        )


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
        self.verdict: Verdict | None = None
        self.environment = _trial_environment(plan, task, context)
        self._sandbox: Sandbox | None = None
        self._last = FRESH
        self._phases: list[PhaseRun] = []
        self._effective: EffectiveLimits | None = None
        self._grant: Grant | None = None
        self._seen = _Seen()
        self._stack = ExitStack()
        self._started_at = ""
        self._began = 0.0
        self._wall_seconds: float | None = None

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
        """Whether a phase can still run: the sandbox stands and no phase has failed."""
        failed = any(run.ending in (Ending.LOST, Ending.ERROR) for run in self._phases)
        return self._sandbox is not None and not failed

    @property
    def last_counters(self) -> Counters:
        """The last reading of the sandbox's counters."""
        return self._last

    def open(self) -> None:
        """Wait for admission and open the sandbox: the setup phase.

        Raises:
            AdmissionStoppedError: the session ended meanwhile.
            UsageError: the guarantee never fits the budget.
        """
        try:
            self._admit()
            self._started_at = utc_now()
            self._began = time.monotonic()
            with self.phase(Phase.SETUP):
                self._open()
        except BaseException:
            self._stack.close()
            raise

    def close(self) -> None:
        """Remove the sandbox and give the guarantee back: the teardown phase; safe to repeat."""
        if self._wall_seconds is not None:
            return
        teardown = PhaseRun(Phase.TEARDOWN, self._last)
        self._stack.close()
        self._sandbox = None
        teardown.close()
        self._phases.append(teardown)
        self._wall_seconds = time.monotonic() - self._began

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[PhaseRun]:
        """Run the body as (part of) a phase and read the counters at its end.

        A `SandboxError` in the body ends the phase and is kept as evidence.
        """
        run = PhaseRun(phase, self._last)
        try:
            yield run
        except SandboxError as error:
            run.fail(error)
        run.close()
        self._last = run.after = self._read_counters(run)
        self._phases.append(run)

    def record(self, classification: Classification | None = None) -> TrialRecord:
        """Return the trial's record; the classification is made from the evidence."""
        plan, allocation = self.plan, self.plan.allocation
        phases = _merge_setup(self._phases)
        evidence = Evidence(
            phases=[run.evidence() for run in phases],
            verdict=self.verdict,
            memory_is_capped=allocation.memory_limit_bytes is not None,
        )
        judged = classification or classify(evidence)
        last = self._last
        return TrialRecord(
            study=plan.study,
            task=plan.task,
            parameter_set=plan.parameter_set.id,
            sample=plan.sample,
            attempt=plan.attempt,
            block=plan.block,
            position=plan.position,
            outcome=judged.outcome,
            cause=judged.cause,
            detail=judged.detail,
            score=None if self.verdict is None else self.verdict.score,
            oom_kills=last.oom_kills if self._effective is not None else None,
            memory_guarantee_bytes=allocation.memory_guarantee_bytes,
            memory_limit_bytes=allocation.memory_limit_bytes,
            cpu_guarantee_cores=allocation.cpu_guarantee_cores,
            cpu_limit_cores=allocation.cpu_limit_cores,
            memory_peak_bytes=last.memory_peak_bytes,
            memory_working_set_bytes=last.memory_working_set_bytes,
            cpu_seconds=last.cpu_seconds,
            cpu_periods=last.cpu_periods,
            throttled_periods=last.throttled_periods,
            started_at=self._started_at,
            wall_seconds=self._wall_seconds,
            admission_wait_seconds=None if self._grant is None else self._grant.wait_seconds,
            trials_beside=None if self._grant is None else self._grant.trials_beside,
            host_memory_available_bytes=self._seen.memory_available_bytes,
            visible_cpus=self._seen.cpus,
            visible_memory_bytes=self._seen.memory_total_bytes,
            image_digest=self.image.digest,
            worker=self.context.worker,
            seed=plan.seed,
            requested=_requested(plan),
            effective=_effective(self._effective),
            notes=(*allocation.notes, *self.image.notes),
            phases=tuple(run.record() for run in phases),
        )

    def _admit(self) -> None:
        request = request_for(
            self.plan.allocation,
            self.context.budget,
            admit=self.context.admit,
            label=f"{self.plan.task} {self.plan.id}",
        )
        self._grant = self._stack.enter_context(
            self.context.ledger.admit(
                request, budget=self.context.budget, should_stop=self.context.should_stop
            )
        )

    def _open(self) -> None:
        request = SandboxRequest(
            study=self.plan.study,
            trial=_sandbox_name(self.plan),
            owner=self.context.owner,
            task=self.task,
            image=self.image,
            allocation=self.plan.allocation,
            environment={**self.task.environment, **self.context.environment},
            masked_paths=self.context.masked_paths,
        )
        sandbox = self.context.backend.open(request)
        self._stack.callback(sandbox.close)
        self._sandbox = sandbox
        self._effective = sandbox.effective_limits()
        self._seen = _Seen.parse(sandbox.exec(["sh", "-c", _SETUP_SCRIPT]))
        if self.task.instruction is not None:
            put_text(sandbox, self.task.instruction, INSTRUCTION_PATH)

    def _read_counters(self, run: PhaseRun) -> Counters:
        """Return the counters at a phase's end; what cannot be read any more is unknown."""
        if self._sandbox is None:
            return self._last
        try:
            counters = self._sandbox.counters()
            hint = run.hints_at_kill or counters.limit_reached
            if hint and not increase(run.before.oom_kills, counters.oom_kills):
                counters = self._sandbox.counters(expect_kill=True)
            return counters
        except SandboxError as error:
            if run.ending is Ending.EXIT:
                run.fail(error)
            return Counters()


def put_text(sandbox: Sandbox, text: str, target: str) -> None:
    """Write a text file into the sandbox."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="infranoise-") as folder:
        source = Path(folder) / Path(target).name
        source.write_text(text, encoding="utf-8")
        source.chmod(0o644)
        sandbox.put(source, target)


def utc_now() -> str:
    """Return the time as UTC, ISO 8601, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the task sees of the machine; these are the host's unless something hides them."""

    cpus: int | None = None
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None

    @classmethod
    def parse(cls, result: StepResult) -> Self:
        """Read the output of the setup script."""
        words: dict[str, str] = {}
        for line in result.output.splitlines():
            name, space, value = line.strip().partition(" ")
            words[name if space else "cpus"] = value if space else name

        def number(name: str, factor: int) -> int | None:
            text = words.get(name, "")
            return int(text) * factor if text.isdecimal() else None

        return cls(number("cpus", 1), number("MemTotal:", 1024), number("MemAvailable:", 1024))


def _trial_environment(plan: TrialPlan, task: Task, context: TrialContext) -> dict[str, str]:
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


def _merge_setup(phases: Sequence[PhaseRun]) -> list[PhaseRun]:
    """Return the phases with consecutive parts of one phase joined."""
    merged: list[PhaseRun] = []
    for run in phases:
        if merged and merged[-1].phase is run.phase:
            first = merged[-1]
            run.before = first.before
            run.started_at = first.started_at
            run.wall_seconds = (run.wall_seconds or 0.0) + (first.wall_seconds or 0.0)
            merged[-1] = run
        else:
            merged.append(run)
    return merged


def _requested(plan: TrialPlan) -> dict[str, Any]:
    values = asdict(plan.requested)
    del values["notes"]
    values["agent_timeout_seconds"] = plan.agent_timeout_seconds
    return values


def _effective(limits: EffectiveLimits | None) -> dict[str, Any]:
    return {} if limits is None else {**limits.values, "source": limits.source}


def _rise(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else max(0.0, after - before)
