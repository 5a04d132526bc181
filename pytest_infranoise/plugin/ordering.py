"""What a process that runs trials does between collection and its first trial."""

import json
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
    TrialItem,
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
    schedule = runtime.schedule
    schedule.rank(item.stash[TRIAL] for item in trials if not isinstance(item, TrialItem))
    schedule.place([item.stash[TRIAL] for item in trials])
    order = schedule.order
    wanted = leave_out(runtime, trials)
    wanted.sort(key=lambda item: order.key(*item.stash[TRIAL]))
    staying = [item for item in wanted if item.stash[TRIAL][0] in schedule.ranks]
    moved = [item for item in wanted if item.stash[TRIAL][0] not in schedule.ranks]
    items[:] = _in_their_places(items, staying) + moved
    return bool(wanted)


def _in_their_places(items: list[pytest.Item], trials: list[pytest.Item]) -> list[pytest.Item]:
    """Return all other tests where they stand, and sorted trials where such trials stood.

    Trials of task folders and of marked tests take places of their own kind.
    """
    kept = set(trials)
    kinds = {
        kind: iter([item for item in trials if isinstance(item, TrialItem) is kind])
        for kind in (True, False)
    }
    return [
        next(kinds[isinstance(item, TrialItem)]) if item in kept else item
        for item in items
        if item in kept or TRIAL not in item.stash
    ]


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
        tell_order(runtime, session.items)
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


def tell_order(runtime: Runtime, items: list[pytest.Item]) -> None:
    """Tell the controller what it cannot see of the items: which are trials, and their order.

    It knows items by their ids, and in a run with one set and sample these are the tests' own.
    """
    if runtime.schedule.ranks:
        trials = {item.nodeid: item.stash[TRIAL] for item in items if TRIAL in item.stash}
        told = {"trials": trials, "ranks": runtime.schedule.ranks}
        runtime.flags.say_order(json.dumps(told))


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
