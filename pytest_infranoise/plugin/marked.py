"""Tests of an existing suite: `@pytest.mark.infra(...)` with the fixture `infra_sandbox`.

Such a test is run over the parameter sets and samples; its body is the agent phase and its
assertions are the verdict.
"""

import sys
from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from pytest_infranoise.admission import AdmissionStoppedError
from pytest_infranoise.errors import (
    BackendUnavailableError,
    InfranoiseError,
    SandboxError,
    UsageError,
)
from pytest_infranoise.model.outcome import Cause, Phase, Verdict
from pytest_infranoise.model.task import Task
from pytest_infranoise.model.trial import TrialPlan, trial_id
from pytest_infranoise.plugin.attempts import Again, telling
from pytest_infranoise.plugin.hints import DEADLINE_NOTE
from pytest_infranoise.plugin.items import RECORD, TRIAL, describe, next_attempt, skip_if_unwanted
from pytest_infranoise.plugin.runtime import Runtime, get_runtime
from pytest_infranoise.plugin.sandbox import InfraSandbox
from pytest_infranoise.plugin.verdicts import ENDED, HAS_FAILED, Ended
from pytest_infranoise.tasks.marker import MARKER, MarkerDefaults, task_from_marker
from pytest_infranoise.trial import LiveTrial
from pytest_infranoise.trial.policing import POLICY_ENDED

FIXTURE = "infra_sandbox"

_LIVE = pytest.StashKey[tuple[LiveTrial, InfraSandbox]]()


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Run a marked test over the parameter sets and samples.

    With one of each there is nothing to tell apart, and the test keeps its id. A marker that
    cannot be used must not stop the collection of everything else, so its error waits for the
    test's own setup.
    """
    if metafunc.definition.get_closest_marker(MARKER) is None:
        return
    try:
        runtime = get_runtime(metafunc.config)
    except InfranoiseError as error:
        metafunc.parametrize(FIXTURE, [pytest.param(error, id="error")], indirect=True)
        return
    if runtime.settings.is_single:
        return
    trials = [
        (parameter_set.id, sample)
        for sample in range(1, runtime.settings.samples + 1)
        for parameter_set in runtime.settings.sets
    ]
    metafunc.parametrize(FIXTURE, trials, ids=[trial_id(*trial) for trial in trials], indirect=True)


def note_trial(item: pytest.Item) -> None:
    """Note on a marked test's item which trial it is."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    if FIXTURE not in params:
        _note_single(item)
    elif isinstance(trial := params[FIXTURE], tuple):
        item.stash[TRIAL] = (_task_name(item, trial_id(*trial)), *trial)


def _note_single(item: pytest.Item) -> None:
    """Note a marked test's trial where it has only one, under the test's own id."""
    if item.get_closest_marker(MARKER) is None:
        return
    settings = get_runtime(item.config).settings
    if settings.is_single:
        item.stash[TRIAL] = (item.nodeid, settings.sets[0].id, 1)


def prepare_images(runtime: Runtime, items: list[pytest.Item]) -> None:
    """Prepare the images of marked tests before the first trial; errors wait for the test.

    Raises:
        BackendUnavailableError: no engine answers, which is one error for all.
    """
    for item in items:
        if item.get_closest_marker(MARKER) is None or TRIAL not in item.stash:
            continue
        try:
            runtime.image_of(_task_of(runtime, item))
        except BackendUnavailableError:
            raise
        except InfranoiseError:
            continue


def open_sandbox(request: pytest.FixtureRequest) -> Generator[InfraSandbox]:
    """Serve the fixture: open the trial's sandbox, and close it if the test never ran."""
    item = request.node
    if TRIAL not in item.stash:
        problem = getattr(request, "param", None)
        pytest.fail(
            str(problem)
            if isinstance(problem, InfranoiseError)
            else f"{item.nodeid}: {_why_no_trial(item)}",
            pytrace=False,
        )
    skip_if_unwanted(item)
    trial = _enter(get_runtime(item.config), item)
    sandbox = InfraSandbox(trial)
    item.stash[_LIVE] = (trial, sandbox)
    yield sandbox
    if _LIVE in item.stash:  # another fixture failed in setup, or the run is being killed
        del item.stash[_LIVE]
        trial.close()


def _why_no_trial(item: pytest.Item) -> str:
    """Say why a test that has the fixture is no trial."""
    if item.get_closest_marker(MARKER) is None:
        return f"{FIXTURE} needs @pytest.mark.{MARKER}(memory=..., ...)"
    if is_test_case(item):
        return (
            "pytest gives no parameters to methods of unittest.TestCase, so this one can run at 1x "
            "alone, without sets and samples; make it a function, or a method of a plain class"
        )
    return f"{FIXTURE} must be an argument of the test, or of a fixture that is one"


def is_test_case(item: pytest.Item) -> bool:
    """Whether a test is a method of a `unittest.TestCase`."""
    unittest, cls = sys.modules.get("unittest"), getattr(item, "cls", None)
    return unittest is not None and cls is not None and issubclass(cls, unittest.TestCase)


def warn_of_mark(item: pytest.Item) -> None:
    """Warn of a test that has the marker and does not use the fixture: it runs as any other."""
    words = f"{item.nodeid}: has @pytest.mark.{MARKER} but not the fixture {FIXTURE}, so it is no "
    with suppress(pytest.PytestWarning):  # -W error: a hook that raises ends the session
        item.warn(pytest.PytestWarning(f"{words}trial and runs without limits"))


def _enter(runtime: Runtime, item: pytest.Item) -> LiveTrial:
    """Open the trial's sandbox; while the engine is away, wait for it and try again."""
    try:
        task, plan = _task_of(runtime, item), plan_marked(runtime, item)
        image, context = runtime.image_of(task), telling(item, runtime.context_of(plan.sample))
        again = Again(item, runtime, context.should_stop)
        while True:
            trial = LiveTrial(plan, task, image, context)
            trial.open()
            if trial.is_open:
                return trial
            trial.close()
            record = runtime.redactor.trial(trial.record())
            if not again.may_try(record):
                break
            plan = replace(plan, attempt=plan.attempt + 1)
    except AdmissionStoppedError:
        skip_if_unwanted(item)
        raise
    except UsageError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    item.stash[RECORD] = record
    pytest.fail(describe(record), pytrace=False)


def plan_marked(runtime: Runtime, item: pytest.Item) -> TrialPlan:
    """Return the plan of a marked test's trial.

    Raises:
        UsageError: the marker or its limits cannot be used.
    """
    _, parameter_set, sample = item.stash[TRIAL]
    return next_attempt(item, runtime.plan(_task_of(runtime, item), parameter_set, sample))


def run_body(item: pytest.Item) -> Generator[None, object, object]:
    """Wrap the call of a marked test: its body is the agent phase, its end is the trial's."""
    if _LIVE not in item.stash:
        return (yield)
    trial, sandbox = item.stash[_LIVE]
    error: BaseException | None = None
    result: object = None
    try:
        with trial.phase(Phase.AGENT) as phase:
            try:
                result = yield
            except (KeyboardInterrupt, pytest.exit.Exception):
                raise
            except BaseException as raised:  # noqa: BLE001 - pytest's own outcomes are among them
                error = raised
            if sandbox.deciding_step is not None:
                phase.finish(sandbox.deciding_step)
            if trial.was_ended and error is None:  # whatever the test made of it
                error = SandboxError(Cause.SANDBOX_LOST, POLICY_ENDED)
            if (lost := _loss(error, sandbox)) is not None:
                raise lost
            trial.sandbox.kill_all()
    finally:
        del item.stash[_LIVE]
        trial.close()
    item.stash[ENDED] = _ended(trial, sandbox, get_runtime(item.config))
    if error is not None:
        raise error
    return result


def _loss(error: BaseException | None, sandbox: InfraSandbox) -> SandboxError | None:
    """Return how the sandbox was lost, also where a subtest has caught that."""
    return error if isinstance(error, SandboxError) else sandbox.loss


def _ended(trial: LiveTrial, sandbox: InfraSandbox, runtime: Runtime) -> Ended:
    """Return a trial's record for either verdict; one that a kill has ended cannot pass."""
    trial.verdict = Verdict(passed=False)
    if_failed = runtime.redactor.trial(trial.record())
    if trial.was_ended:
        return Ended(if_failed, if_failed)
    if sandbox.deadlines:
        trial.note(f"{DEADLINE_NOTE}: {sandbox.deadlines} command(s)")
    trial.verdict = Verdict(passed=True)
    return Ended(if_failed, runtime.redactor.trial(trial.record()))


def note_failure(item: pytest.Item) -> None:
    """Note that a report of a running or ended trial has failed: the trial has not passed."""
    item.stash[HAS_FAILED] = True
    if _LIVE in item.stash:  # a subtest
        item.stash[_LIVE][1].blame_last_step()


def is_under_way(item: pytest.Item) -> bool:
    """Whether a marked test's body runs or has run, so that its reports are the verdict."""
    return _LIVE in item.stash or ENDED in item.stash


def _task_name(item: pytest.Item, own_id: str) -> str:
    """Return the test's node id without the part that names parameter set and sample."""
    path, _, _ = item.nodeid.partition("[")
    others = item.callspec.id.replace(own_id, "", 1).strip("-")  # type: ignore[attr-defined]
    return f"{path}[{others}]" if others else path


def _task_of(runtime: Runtime, item: pytest.Item) -> Task:
    """Return the task that a marked test is.

    Raises:
        UsageError: the marker cannot be used.
    """
    name = item.stash[TRIAL][0]
    if name not in runtime.tasks:
        marker = item.get_closest_marker(MARKER)
        assert marker is not None
        if marker.args:
            raise UsageError(f"{name}: {MARKER} marker: name its arguments, as in memory='512M'")
        task = task_from_marker(name, marker.kwargs, _defaults(runtime), source=_source(item))
        for warning in runtime.backend.check(task):
            if warning not in runtime.warnings:
                runtime.warnings.append(warning)
        runtime.add_task(task)
    return runtime.tasks[name]


def _defaults(runtime: Runtime) -> MarkerDefaults:
    settings = runtime.settings
    return MarkerDefaults(
        memory_bytes=settings.default_memory_bytes,
        cpu_cores=settings.default_cpu_cores,
        image=settings.default_image,
        timeout_seconds=settings.default_timeout_seconds,
    )


def _source(item: Any) -> str:
    import inspect

    try:
        return inspect.getsource(item.function)
    except (OSError, TypeError):
        return ""
