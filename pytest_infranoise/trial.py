"""One trial's life: admission, sandbox, phases, evidence, record.

`run_trial` is the life of a benchmark task's trial; a Python test's trial drives the same
`LiveTrial` from a fixture. Whatever happens inside, the guarantee is given back and the sandbox is
removed; a trial that is interrupted leaves no record.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pytest_infranoise import steps, verify
from pytest_infranoise.admission import (
    AdmissionLedger,
    Admit,
    Budget,
    Grant,
    request_for,
    take_cpus,
)
from pytest_infranoise.agents.base import INSTRUCTION_PATH, Agent, AgentStep
from pytest_infranoise.backends.base import (
    Backend,
    EffectiveLimits,
    Sandbox,
    SandboxRequest,
    StepResult,
)
from pytest_infranoise.design import agent_timeout
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.healthcheck import wait_until_healthy
from pytest_infranoise.model.enforcement import (
    DEFAULT_ENFORCEMENT,
    Enforcement,
    thread_environment,
    whole_cores,
)
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
from pytest_infranoise.model.task import Leftovers, PreparedImage, Task, TaskStep
from pytest_infranoise.model.trial import TrialPlan, TrialRecord
from pytest_infranoise.phases import FRESH, PhaseRun, merge_setup, utc_now
from pytest_infranoise.policing import PolicedSandbox, police

_SETUP_SCRIPT = """
mkdir -p /logs/agent /logs/verifier /logs/artifacts && chmod 777 /logs /logs/*
nproc 2>/dev/null || echo unknown
while read -r name kib unit; do
  case $name in MemTotal:|MemAvailable:) echo "$name $kib" ;; esac
done </proc/meminfo
"""

_EMPTY_SHM = "rm -rf /dev/shm/* /dev/shm/.[!.]* /dev/shm/..?*"


@dataclass(frozen=True, slots=True)
class TrialContext:
    """What all trials of one process share.

    `admit` says whether the guarantee or the kill threshold is reserved on the host. `environment`
    holds host variables that the user passes through by name; their values are never recorded.
    `should_stop` is asked while a trial waits for admission. `ceiling_bytes` is what all trials of
    the run together may use, None for no ceiling. `reclassify` gets a trial's `task`, `plan`,
    `evidence`, `phases` (records) and `classification` as keywords, and returns the final
    classification, with a note if it is another one.
    """

    backend: Backend
    agent: Agent
    ledger: AdmissionLedger
    budget: Budget
    worker: str
    owner: str
    admit: Admit = "guarantee"
    leftovers: Leftovers = "keep"
    enforcement: Enforcement = DEFAULT_ENFORCEMENT
    ceiling_bytes: int | None = None
    pass_threshold: float = 1.0
    environment: Mapping[str, str] = field(default_factory=dict)
    masked_paths: Sequence[Path] = ()
    should_stop: Callable[[], bool] = lambda: False
    reclassify: Callable[..., tuple[Classification, str | None]] | None = None


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


def _run_steps(trial: "LiveTrial") -> None:
    """Work through a task's steps, until one falls short or leaves no answer."""
    verdicts: list[Verdict] = []
    for step in trial.task.steps:
        if not trial.is_open:
            return
        verdict = _run_part(trial, steps.task_of_step(trial.task, step), step)
        if verdict is None:  # a phase was the trial's end, so that there is no judgement
            return
        verdicts.append(verdict)
        if verdict.problem is not None or steps.falls_short(verdict, step):
            break
    trial.verdict = steps.combine(
        verdicts, trial.task.reward_strategy, trial.context.pass_threshold
    )


def _run_part(trial: "LiveTrial", task: Task, step: TaskStep | None = None) -> Verdict | None:
    """Run agent and tests once; return the verdict, None where it was never reached."""
    environment = (
        trial.environment if step is None else trial.environment | {"INFRA_STEP": step.name}
    )
    user = task.agent_user or trial.image.user
    with trial.phase(Phase.SETUP, step):
        if step is not None:
            if step is not trial.task.steps[0]:
                steps.clear_verification(trial.sandbox)
            put_text(trial.sandbox, step.instruction, INSTRUCTION_PATH)
            steps.put_files(trial.sandbox, task, step, user)
            _await_health(trial, task, user)
        trial.context.agent.prepare(trial.sandbox, task)
    if not trial.is_open:
        return None
    timeout = trial.plan.agent_timeout_seconds
    if step is not None:
        timeout = agent_timeout(task, trial.plan.parameter_set)
    with trial.phase(Phase.AGENT, step) as phase:
        work = AgentStep(task, environment, timeout, user)
        phase.finish(trial.context.agent.run(trial.sandbox, work))
    return _verify(trial, task, environment, step) if trial.is_open else None


def _await_health(trial: "LiveTrial", task: Task, user: str | None) -> None:
    if task.healthcheck is not None:
        wait_until_healthy(trial.sandbox, task.healthcheck, workdir=task.workdir, user=user)


def _verify(
    trial: "LiveTrial", task: Task, environment: Mapping[str, str], step: TaskStep | None
) -> Verdict | None:
    verdict = None
    with trial.phase(Phase.VERIFY, step) as phase:
        if (task.leftovers or trial.context.leftovers) == "kill":
            trial.sandbox.kill_all()
            trial.sandbox.exec(["sh", "-c", _EMPTY_SHM])
        assert task.tests is not None
        verification = verify.Verification(
            tests=(task.tests,) if step is None else step.tests,
            timeout_seconds=task.verifier_timeout_seconds,
            environment={**environment, **task.verifier_environment},
            workdir=task.workdir,
            user=task.verifier_user or trial.image.user,
        )
        verify.put_tests(trial.sandbox, verification.tests)
        result = verify.run_tests(trial.sandbox, verification)
        verdict = verify.judge(trial.sandbox, verification, trial.context.pass_threshold)
        output = trial.sandbox.read(verify.OUTPUT, max_bytes=phase.output_limit_bytes + 1)
        if step is None or step is trial.task.steps[-1]:
            # What is still running could be killed after the last reading.
            trial.sandbox.kill_all()
        phase.finish(result)
        phase.set_output(output or b"")
    return verdict


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
        self._police: PolicedSandbox | None = None
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
    def phase(self, phase: Phase, step: TaskStep | None = None) -> Iterator[PhaseRun]:
        """Run the body as (part of) a phase and read the counters at its end.

        `step` is the one that the phase belongs to, of a task of several steps. A `SandboxError` in
        the body ends the phase and is kept as evidence.
        """
        run = PhaseRun(phase, self._last, None if step is None else step.name)
        try:
            yield run
        except SandboxError as error:
            run.fail(error)
        run.close()
        self._last = run.after = self._read_counters(run)
        if self._police is not None:
            run.victim = self._police.take_victim()
            if self._police.has_ended:
                run.end_by_policy(run.victim)
        self._phases.append(run)

    def record(self, classification: Classification | None = None) -> TrialRecord:
        """Return the trial's record; the classification is made from the evidence."""
        plan, allocation = self.plan, self.plan.allocation
        phases = merge_setup(self._phases)
        evidence = Evidence(
            phases=[run.evidence() for run in phases],
            verdict=self.verdict,
            memory_is_capped=allocation.memory_limit_bytes is not None,
        )
        kept = tuple(run.record() for run in phases)
        judged, note = classification or classify(evidence), None
        if self.context.reclassify is not None:
            judged, note = self.context.reclassify(
                task=self.task, plan=plan, evidence=evidence, phases=kept, classification=judged
            )
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
            overrun_seconds=last.overrun_seconds,
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
            notes=(*allocation.notes, *self.image.notes, *((note,) if note else ())),
            phases=kept,
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
        context, allocation = self.context, self.plan.allocation
        sandbox: Sandbox = context.backend.open(self._request())
        self._police = police(
            sandbox, context.enforcement, allocation.memory_limit_bytes, context.backend.info
        )
        sandbox = self._police or sandbox
        self._stack.callback(sandbox.close)
        self._sandbox = sandbox
        self._effective = sandbox.effective_limits()
        self._seen = _Seen.parse(sandbox.exec(["sh", "-c", _SETUP_SCRIPT]))
        if self.task.instruction is not None:
            put_text(sandbox, self.task.instruction, INSTRUCTION_PATH)
        _await_health(self, self.task, self.image.user)

    def _request(self) -> SandboxRequest:
        context, allocation = self.context, self.plan.allocation
        enforcement = context.enforcement
        environment = {**self.task.environment, **context.environment}
        cpus = None
        if enforcement.visible == "limit":
            environment = {**thread_environment(allocation.cpu_limit_cores), **environment}
            count, info = whole_cores(allocation.cpu_limit_cores), context.backend.info
            cpus = None if count is None else take_cpus(info.cpus, count, info.engine_id)
        return SandboxRequest(
            study=self.plan.study,
            trial=_sandbox_name(self.plan),
            owner=context.owner,
            task=self.task,
            image=self.image,
            allocation=enforcement.for_engine(allocation),
            environment=environment,
            masked_paths=context.masked_paths,
            enforcement=enforcement,
            ceiling_bytes=context.ceiling_bytes,
            cpus=cpus,
        )

    def _read_counters(self, run: PhaseRun) -> Counters:
        """Return the counters at a phase's end; what cannot be read any more is unknown."""
        if self._sandbox is None:
            return Counters()  # it never opened
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


def _requested(plan: TrialPlan) -> dict[str, Any]:
    values = asdict(plan.requested)
    del values["notes"]
    values["agent_timeout_seconds"] = plan.agent_timeout_seconds
    return values


def _effective(limits: EffectiveLimits | None) -> dict[str, Any]:
    return {} if limits is None else {**limits.values, "source": limits.source}
