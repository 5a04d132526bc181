"""One trial's attempts: tried again as long as they measured nothing.

A provider of models that is overloaded is overloaded for every parameter set, and an engine that is
away is away for all of them, so such an attempt measures nothing. Each attempt is on record the
moment it has ended, whatever becomes of the next one.
"""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_infranoise.admission import AdmissionStoppedError
from pytest_infranoise.errors import BackendUnavailableError, InfranoiseError
from pytest_infranoise.model.outcome import Cause
from pytest_infranoise.model.task import PreparedImage, Task
from pytest_infranoise.model.trial import TrialPlan, TrialRecord
from pytest_infranoise.plugin.recorder import ATTEMPT_ATTRIBUTE, ATTRIBUTE, WAIT_ATTRIBUTE
from pytest_infranoise.plugin.runtime import Runtime
from pytest_infranoise.trial import TrialContext, run_trial

LOOK_SECONDS = 0.2
"""How often a pause looks whether it is still worth waiting."""

ENGINE_LOOK_SECONDS = 1.0
"""How often an engine that is away is asked again."""

MAX_OUTAGES = 3
"""So often the engine may go away under one trial; then the trial may be the reason."""


def run_attempts(
    item: pytest.Item, runtime: Runtime, plan: TrialPlan, task: Task, image: PreparedImage
) -> TrialRecord:
    """Run a trial until an attempt has measured something; return the last attempt's record.

    The records of the attempts before it are delivered. A session that is to stop, or has spent
    what it may, tries no further.

    Raises:
        AdmissionStoppedError: the session ended while the first attempt still waited.
    """
    context = telling(item, runtime.context_of(plan.sample))
    again = Again(item, runtime, context.should_stop)
    record = runtime.redactor.trial(run_trial(plan, task, image, context))
    while again.may_try(record):
        plan = replace(plan, attempt=plan.attempt + 1)
        try:
            record = runtime.redactor.trial(run_trial(plan, task, image, context))
        except AdmissionStoppedError:
            break
    return record


def telling(item: pytest.Item, context: TrialContext) -> TrialContext:
    """Return a trial's context in which it says what it waits for."""
    return replace(context, tell_wait=lambda words: tell_wait(item, "admission", words))


class Again:
    """Whether a trial is tried once more, after whatever has to be waited for."""

    def __init__(
        self, item: pytest.Item, runtime: Runtime, should_stop: Callable[[], bool]
    ) -> None:
        self._item = item
        self._runtime = runtime
        self._should_stop = should_stop
        self._refusals = 0
        self._outages = 0

    def may_try(self, record: TrialRecord) -> bool:
        """Deliver an attempt that measured nothing, wait, and return whether to try again."""
        if record.cause is Cause.MODEL_API:
            return self._after_refusal(record)
        if record.cause is Cause.ENGINE_AWAY:
            return self._after_outage(record)
        return False

    def _after_refusal(self, record: TrialRecord) -> bool:
        self._refusals += 1
        settings = self._runtime.settings.attempts
        if self._refusals > settings.retries:
            return False
        deliver(self._item, record)
        return wait(settings.pause_before(self._refusals), self._should_stop)

    def _after_outage(self, record: TrialRecord) -> bool:
        self._outages += 1
        if self._outages >= MAX_OUTAGES:
            place = f"{record.task} {record.parameter_set}-s{record.sample}"
            self._runtime.flags.halt(
                f"the engine went away {self._outages} times while {place} ran"
            )
            return False
        deliver(self._item, record)
        return wait_for_engine(self._item, self._runtime, self._should_stop)


def reach_engine(item: pytest.Item, runtime: Runtime) -> None:
    """Open the engine where this process has not yet done so; it did answer when the run began."""
    if runtime.has_backend:
        return
    try:
        _ = runtime.backend
    except BackendUnavailableError:
        wait_for_engine(item, runtime, runtime.flags.should_start_none)


def wait_for_engine(
    item: pytest.Item,
    runtime: Runtime,
    should_stop: Callable[[], bool],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> bool:
    """Wait until the engine answers; return whether it does. If it never does, the run halts.

    What its outage left of this process's sandboxes is removed.
    """
    limit, began = runtime.settings.attempts.engine_seconds, clock()
    while (outage := runtime.outage()) is not None:
        if should_stop():
            return False
        waited = clock() - began
        if waited >= limit:
            runtime.flags.halt(f"the engine did not answer for {limit:g} s; {outage}")
            return False
        bound = f"waiting up to {limit:g} s for it (--infra-engine-timeout)"
        tell_wait(item, "engine", f"{outage}; {bound}")
        wait(min(ENGINE_LOOK_SECONDS, limit - waited), should_stop)
    tell_wait(item, "engine again", f"the engine answers again, after {clock() - began:.0f} s")
    try:
        runtime.sweep(runtime.owner)
    except InfranoiseError:
        return wait_for_engine(item, runtime, should_stop, clock=clock)
    return True


def deliver(item: pytest.Item, record: TrialRecord) -> None:
    """Send an attempt's record to whoever keeps the study, before the item has ended."""
    report = _extra_report(item)
    setattr(report, ATTRIBUTE, record.to_json())
    setattr(report, ATTEMPT_ATTRIBUTE, True)
    item.ihook.pytest_runtest_logreport(report=report)


def tell_wait(item: pytest.Item, kind: str, text: str) -> None:
    """Tell whoever keeps the study what this process waits for."""
    report = _extra_report(item)
    setattr(report, WAIT_ATTRIBUTE, [kind, text])
    item.ihook.pytest_runtest_logreport(report=report)


def _extra_report(item: pytest.Item) -> pytest.TestReport:
    """Return a report beside the item's own ones; it looks like one of a setup that passed.

    Nobody but the study's keeper has anything to do with it.
    """
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords={},
        outcome="passed",
        longrepr=None,
        when="setup",
    )


def wait(
    seconds: float,
    should_stop: Callable[[], bool],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Wait, and return whether there is still a reason to go on."""
    until = clock() + seconds
    while not should_stop():
        left = until - clock()
        if left <= 0:
            return True
        sleep(min(left, LOOK_SECONDS))
    return False
