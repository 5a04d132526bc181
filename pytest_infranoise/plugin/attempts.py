"""One trial's attempts: tried again while its model's provider refuses to work.

A provider that is overloaded is overloaded for every parameter set, so such an attempt measures
nothing. Each attempt is on record the moment it has ended, whatever becomes of the next one.
"""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from pytest_infranoise.admission import AdmissionStoppedError
from pytest_infranoise.model.outcome import Cause
from pytest_infranoise.model.task import PreparedImage, Task
from pytest_infranoise.model.trial import TrialPlan, TrialRecord
from pytest_infranoise.plugin.recorder import ATTEMPT_ATTRIBUTE, ATTRIBUTE
from pytest_infranoise.plugin.runtime import Runtime
from pytest_infranoise.trial import run_trial

LOOK_SECONDS = 0.2
"""How often a pause looks whether it is still worth waiting."""


def run_attempts(
    item: pytest.Item, runtime: Runtime, plan: TrialPlan, task: Task, image: PreparedImage
) -> TrialRecord:
    """Run a trial until an attempt has measured something; return the last attempt's record.

    The records of the attempts before it are delivered. A session that is to stop, or has spent
    what it may, tries no further.

    Raises:
        AdmissionStoppedError: the session ended while the first attempt still waited.
    """
    settings, context = runtime.settings.attempts, runtime.context_of(plan.sample)
    record = runtime.redactor.trial(run_trial(plan, task, image, context))
    for retry in range(1, settings.retries + 1):
        if record.cause is not Cause.MODEL_API:
            break
        deliver(item, record)
        if not wait(settings.pause_before(retry), context.should_stop):
            break
        plan = replace(plan, attempt=plan.attempt + 1)
        try:
            record = runtime.redactor.trial(run_trial(plan, task, image, context))
        except AdmissionStoppedError:
            break
    return record


def deliver(item: pytest.Item, record: TrialRecord) -> None:
    """Send an attempt's record to whoever keeps the study, before the item has ended.

    It goes on a report of its own, which looks like one of a setup that passed: nobody else has
    anything to do with it.
    """
    report = pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords={},
        outcome="passed",
        longrepr=None,
        when="setup",
    )
    setattr(report, ATTRIBUTE, record.to_json())
    setattr(report, ATTEMPT_ATTRIBUTE, True)
    item.ihook.pytest_runtest_logreport(report=report)


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
