"""What a process that runs trials does between collection and its first trial."""

import json
from contextlib import suppress
from typing import Any

import pytest

from pytest_infranoise.errors import BackendUnavailableError, InfranoiseError
from pytest_infranoise.plugin.attempts import deliver
from pytest_infranoise.plugin.items import (
    LAST,
    RECORD,
    TRIAL,
    UNNEEDED,
    UNRUN,
    TrialItem,
    skip_if_unwanted,
)
from pytest_infranoise.plugin.marked import is_under_way, note_failure, prepare_images
from pytest_infranoise.plugin.recorder import (
    ATTRIBUTE,
    EITHER_ATTRIBUTE,
    ERROR_ATTRIBUTE,
    UNNEEDED_ATTRIBUTE,
    UNRUN_ATTRIBUTE,
    VERDICT_ATTRIBUTE,
)
from pytest_infranoise.plugin.runtime import Runtime, get_runtime
from pytest_infranoise.plugin.stopping import WorkerWatch, ignore_signals
from pytest_infranoise.plugin.verdicts import ENDED, HAS_FAILED, is_error_of_test
from pytest_infranoise.report.properties import trial_properties
from pytest_infranoise.tasks.marker import MARKER


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

    An engine that does not answer halts the run: one line says so, not each trial.
    """
    runtime = get_runtime(session.config)
    if runtime.settings.dry_run:
        return None
    watch = None
    if is_worker:
        ignore_signals()
        runtime.flags.say_owner(runtime.worker, runtime.owner)
        watch = WorkerWatch(runtime.flags, runtime.worker, lambda: _remove_own(runtime))
        tell_order(runtime, session.items)
        watch.start()
    try:
        prepare_images(runtime, session.items)
    except BackendUnavailableError as error:
        runtime.flags.halt(str(error))
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
    """Skip a trial that must not start any more before its fixtures are set up.

    Where another plugin runs the item again, the attempt before is delivered: whether that plugin
    has shown its reports to anybody is not known here, and delivering twice does no harm.
    """
    if TRIAL not in item.stash:
        return
    if LAST in item.stash:
        deliver(item, item.stash[LAST])
        _begin_anew(item)
    skip_if_unwanted(item)


def _begin_anew(item: pytest.Item) -> None:
    """Forget how the attempt before has ended."""
    if ENDED in item.stash:
        del item.stash[ENDED]
    if HAS_FAILED in item.stash:
        del item.stash[HAS_FAILED]


def attach_record(item: pytest.Item, call: pytest.CallInfo[Any], report: Any) -> None:
    """Put the trial's record on the report that shows its outcome."""
    for key, attribute in ((UNNEEDED, UNNEEDED_ATTRIBUTE), (UNRUN, UNRUN_ATTRIBUTE)):
        if key in item.stash:
            setattr(report, attribute, True)
            del item.stash[key]
    if RECORD in item.stash:  # of a task, or of a marked test whose sandbox could not be opened
        item.stash[LAST] = item.stash[RECORD]
        del item.stash[RECORD]
        setattr(report, ATTRIBUTE, item.stash[LAST].to_json())
        if item.get_closest_marker(MARKER) is not None:
            setattr(report, VERDICT_ATTRIBUTE, True)
    elif is_under_way(item):
        _attach_verdict(item, call, report)
    if report.when == "teardown" and LAST in item.stash:
        report.user_properties += trial_properties(item.stash[LAST].to_json())


def _attach_verdict(item: pytest.Item, call: pytest.CallInfo[Any], report: Any) -> None:
    """Put what a report says of a marked test's trial on it: of its body, a subtest, an error."""
    if report.failed:
        note_failure(item)
        setattr(report, ERROR_ATTRIBUTE if is_error_of_test(call) else VERDICT_ATTRIBUTE, True)
    ended = item.stash.get(ENDED, None)
    if ended is None:
        return
    if report.when == "call" and ended.is_left_out_by(report):
        del item.stash[ENDED]
        return
    passed = report.passed if report.when == "call" else item.stash[LAST] is ended.if_passed
    record = ended.chosen(passed=passed and HAS_FAILED not in item.stash)
    item.stash[LAST] = record
    if report.when == "call":
        setattr(report, ATTRIBUTE, record.to_json())
        either = [ended.if_failed.to_json(), ended.if_passed.to_json()]
        setattr(report, EITHER_ATTRIBUTE, either)
