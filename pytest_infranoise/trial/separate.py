"""Verification in a sandbox of its own, with what is taken over from where the agent worked."""

import logging
import shutil
from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from pytest_infranoise.agents.shell import SH, bash_command
from pytest_infranoise.backends.base import Placement, Sandbox
from pytest_infranoise.errors import SandboxError, UsageError
from pytest_infranoise.model.outcome import Cause, Counters, Phase, Verdict
from pytest_infranoise.model.resources import ONE, Allocation, ParameterSet, allocate, fit
from pytest_infranoise.model.task import (
    MAIN_SERVICE,
    Artifact,
    CollectCommand,
    PreparedImage,
    Task,
    TaskStep,
)
from pytest_infranoise.trial.beginning import begin
from pytest_infranoise.trial.folders import PUBLISHED
from pytest_infranoise.trial.life import LiveTrial, await_health, read_counters
from pytest_infranoise.trial.phases import FRESH, PhaseRun
from pytest_infranoise.trial.record import limits_of

_DECLARED = ParameterSet.joint(ONE)
_log = logging.getLogger(__name__)


class Examination(Protocol):
    """Runs and judges the tests in an open sandbox, and tells the phase what became of them."""

    def __call__(self, sandbox: Sandbox, image: PreparedImage, run: PhaseRun) -> Verdict:
        """Return the verdict."""


def take_over(trial: LiveTrial, task: Task, folder: Path, *, ends: bool) -> None:
    """Run the task's collecting commands and copy its artifacts to a host folder.

    First those of the container that the agent worked in. With `ends` all that the agent left
    running there is killed then, so that it cannot interfere with what helper services say.

    Raises:
        SandboxError: the sandbox is gone.
    """
    artifacts = _with_published(task.artifacts)
    own = [item for item in artifacts if item.service == MAIN_SERVICE]
    others = [item for item in artifacts if item.service != MAIN_SERVICE]
    collect(trial, (item for item in task.collect if item.service == MAIN_SERVICE))
    _copy(trial, own, folder)
    if ends:
        trial.sandbox.kill_all()
    collect(trial, (item for item in task.collect if item.service != MAIN_SERVICE))
    _copy(trial, others, folder)


def _with_published(artifacts: tuple[Artifact, ...]) -> tuple[Artifact, ...]:
    names = {item.source.rstrip("/") for item in artifacts if item.service == MAIN_SERVICE}
    return artifacts if PUBLISHED in names else (Artifact(PUBLISHED), *artifacts)


def collect_all(trial: LiveTrial, task: Task) -> None:
    """Run the commands that tests in the agent's own sandbox rely on, helper services' last."""
    collect(trial, sorted(task.collect, key=lambda item: item.service != MAIN_SERVICE))


def collect(trial: LiveTrial, commands: Iterable[CollectCommand]) -> None:
    """Run `[[verifier.collect]]`; a command that fails is the task's affair, as in the format."""
    for item in commands:
        is_main = item.service == MAIN_SERVICE
        sandbox = trial.service(item.service)
        shell = bash_command(sandbox) if is_main else [SH]
        result = sandbox.exec(
            [*shell, "-c", item.command],
            timeout_seconds=item.timeout_seconds,
            user=item.user or (trial.image.user if is_main else None),
        )
        if result.exit_code != 0:
            how = "deadline" if result.exit_code is None else f"exit code {result.exit_code}"
            trial.note(f"collect in {item.service}: {how}: {item.command[:120]}")


def _copy(trial: LiveTrial, artifacts: Iterable[Artifact], folder: Path) -> None:
    for item in artifacts:
        target = host_path(folder, item.source)
        if target.exists():  # an earlier entry has it already
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            trial.service(item.service).get(item.source, target)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise SandboxError(
                Cause.HARNESS, f"artifact {item.source} could not be kept: {error}"
            ) from error
        except ValueError as error:  # it is too large, or a name leads out of its folder
            _remove(target)
            trial.note(f"artifact {item.source}: left out: {error}")
            continue
        leave_out(target, item.exclude)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def host_path(folder: Path, source: str) -> Path:
    """Return where an artifact lies in the host folder: at its own path below it."""
    return folder.joinpath(*PurePosixPath(source).parts[1:])


def leave_out(folder: Path, patterns: Iterable[str]) -> None:
    """Remove what `tar --exclude` would leave out: a pattern may match any end of a path."""
    chosen = tuple(patterns)
    if not chosen or not folder.is_dir():
        return
    for path in sorted(folder.rglob("*"), reverse=True):  # children before their folder
        parts = path.relative_to(folder).parts
        ends = ("/".join(parts[start:]) for start in range(len(parts)))
        if not any(fnmatchcase(end, pattern) for end in ends for pattern in chosen):
            continue
        _remove(path)


def verify_apart(
    trial: LiveTrial,
    task: Task,
    step: TaskStep | None,
    carried: Path,
    examine: Examination,
) -> Verdict | None:
    """Run a verify phase in a sandbox of its own; None where it came to no verdict.

    Its counters, and so what is said of kills, are those of that sandbox. Its limits are what the
    verifier declares, in every parameter set.
    """
    run = PhaseRun(Phase.VERIFY, FRESH, None if step is None else step.name, in_verifier=True)
    run.after = Counters()
    assert task.verifier is not None
    own = task.verifier.sandbox
    verdict, facts = None, _facts(None, None)
    try:
        image = _image(trial, own)
        given = _allocation(trial, own)
        facts = _facts(image, given)
        request = trial.request(own, image, given, part="-verifier")
        with trial.context.backend.open(request) as sandbox:
            try:
                facts |= {"effective": limits_of(sandbox.effective_limits())}
                begin(sandbox, own, image)
                await_health(sandbox, own, image.user)
                _put(sandbox, _with_published(task.artifacts), carried)
                verdict = examine(sandbox, image, run)
            except SandboxError as error:
                raise trial.name_failure(error, sandbox) from error
            finally:
                run.after = read_counters(sandbox, run)
    except SandboxError as error:
        run.fail(trial.name_failure(error))
    run.close()
    facts |= {
        "oom_kills": run.after.oom_kills,
        "memory_peak_bytes": run.after.memory_peak_bytes,
        "cpu_seconds": run.after.cpu_seconds,
    }
    trial.keep(run, facts)
    return verdict


def _facts(image: PreparedImage | None, given: Allocation | None) -> dict[str, Any]:
    return {
        "image_digest": None if image is None else image.digest,
        "memory_limit_bytes": None if given is None else given.memory_limit_bytes,
        "cpu_limit_cores": None if given is None else given.cpu_limit_cores,
    }


def _image(trial: LiveTrial, task: Task) -> PreparedImage:
    """Return the verifier's image, which was prepared before any trial."""
    try:
        return trial.context.backend.prepare(task, _log.info)
    except UsageError as error:
        raise SandboxError(Cause.IMAGE, str(error)) from error


def _allocation(trial: LiveTrial, task: Task) -> Allocation:
    capacity = trial.context.backend.info.capacity
    given = fit(allocate(task.spec, _DECLARED), capacity, clamp=True, where=task.name)
    # The trial's own reservation covers it; to the engine it is a limit.
    return replace(given, beside_memory_bytes=0, beside_cpu_cores=0.0)


def _put(sandbox: Sandbox, artifacts: Iterable[Artifact], carried: Path) -> None:
    """Lay what was taken over where it came from; tests of any user may write into its folders."""
    for item in artifacts:
        path = host_path(carried, item.source)
        if not path.exists():
            continue
        sandbox.place([Placement(item.source, path, mode=0o777 if path.is_dir() else None)])
