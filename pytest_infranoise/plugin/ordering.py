"""What a process that runs trials does between collection and its first trial."""

from contextlib import suppress
from typing import Any

import pytest

from pytest_infranoise.errors import InfranoiseError
from pytest_infranoise.plugin.items import (
    RECORD,
    TEST_ERROR,
    TRIAL,
    UNNEEDED,
    UNRUN,
    skip_if_unwanted,
)
from pytest_infranoise.plugin.marked import prepare_images
from pytest_infranoise.plugin.recorder import (
    ATTRIBUTE,
    ERROR_ATTRIBUTE,
    UNNEEDED_ATTRIBUTE,
    UNRUN_ATTRIBUTE,
)
from pytest_infranoise.plugin.runtime import Runtime, get_runtime
from pytest_infranoise.plugin.stopping import WorkerWatch, ignore_signals
from pytest_infranoise.report.properties import trial_properties


def order_trials(config: pytest.Config, items: list[pytest.Item]) -> bool:
    """Sort the trials among the items into the study's order; return whether any is to run."""
    trials = [item for item in items if TRIAL in item.stash]
    if not trials:
        return False
    runtime = get_runtime(config)
    runtime.schedule.place([item.stash[TRIAL] for item in trials])
    order = runtime.schedule.order
    trials.sort(key=lambda item: order.key(*item.stash[TRIAL]))
    wanted = leave_out(runtime, trials)
    items[:] = [item for item in items if TRIAL not in item.stash] + wanted
    return bool(wanted)


def leave_out(runtime: Runtime, trials: list[pytest.Item]) -> list[pytest.Item]:
    """Return the trials that are to run here; those of other shards or on record are deselected."""
    chosen = [(item, runtime.schedule.is_wanted(item.stash[TRIAL])) for item in trials]
    if others := [item for item, is_wanted in chosen if not is_wanted]:
        runtime.config.hook.pytest_deselected(items=others)
    return [item for item, is_wanted in chosen if is_wanted]


def make_ready(session: pytest.Session, is_worker: bool) -> WorkerWatch | None:
    """Open the engine, prepare the images of marked tests, and watch the controller.

    An engine that does not answer is every trial's own error here: the controller has told the
    user already wherever it could know.
    """
    runtime = get_runtime(session.config)
    if runtime.settings.dry_run:
        return None
    watch = None
    if is_worker:
        ignore_signals()
        runtime.flags.say_owner(runtime.worker, runtime.owner)
        watch = WorkerWatch(runtime.flags, lambda: _remove_own(runtime))
        watch.start()
    try:
        prepare_images(runtime, session.items)
    except InfranoiseError:
        return watch
    return watch


def _remove_own(runtime: Runtime) -> None:
    """Remove this process's sandboxes; where the engine is away, that must not keep it alive."""
    with suppress(InfranoiseError):
        runtime.sweep(runtime.owner)


def prepare_trial(item: pytest.Item) -> None:
    """Skip a trial that must not start any more before its fixtures are set up."""
    if TRIAL in item.stash:
        skip_if_unwanted(item)


def attach_record(item: pytest.Item, report: Any) -> None:
    """Move the record from the item to the report that shows its outcome."""
    for key, attribute in ((UNNEEDED, UNNEEDED_ATTRIBUTE), (UNRUN, UNRUN_ATTRIBUTE)):
        if key in item.stash:
            setattr(report, attribute, True)
            del item.stash[key]
    if item.stash.get(TEST_ERROR, False):
        setattr(report, ERROR_ATTRIBUTE, True)
    if RECORD in item.stash:
        record = item.stash[RECORD].to_json()
        setattr(report, ATTRIBUTE, record)
        item.user_properties += trial_properties(record)  # teardown's report carries them
        del item.stash[RECORD]
