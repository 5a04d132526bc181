"""`--infra-exclude`: tasks that a study leaves out by name, and the refusal that suggests it."""

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from pytest_infranoise.admission import Admit, Budget, check_guarantees
from pytest_infranoise.design import allocate_task
from pytest_infranoise.errors import BackendUnavailableError, UsageError, listing
from pytest_infranoise.model.enforcement import Enforcement
from pytest_infranoise.model.resources import Allocation, Capacity, ParameterSet
from pytest_infranoise.model.task import Task

OPTION = "--infra-exclude"
_NEAR = 0.0
"""Whatever is nearest: a wrong pattern is no reason to list all names."""


def split_patterns(values: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns of a repeatable option, each value of which may be a list."""
    parts = [part.strip() for value in values for part in value.split(",")]
    return tuple(dict.fromkeys(part for part in parts if part))


def pattern_of(name: str, patterns: Sequence[str]) -> str | None:
    """Return the first pattern that a task's name matches, None for a task that stays."""
    return next((item for item in patterns if fnmatchcase(name, item)), None)


def check_patterns(patterns: Sequence[str], names: Iterable[str], *, where: str) -> None:
    """Refuse patterns that match no task, and such as leave none.

    Raises:
        UsageError: one line per pattern, with the nearest name.
    """
    known = list(names)
    errors = []
    for pattern in patterns:
        if any(fnmatchcase(name, pattern) for name in known):
            continue
        near = get_close_matches(pattern, known, n=1, cutoff=_NEAR)
        errors.append(
            f"{where}: {pattern!r} matches no task"
            + (f"; the nearest name is {near[0]!r}" if near else "; no task was found")
        )
    if errors:
        raise UsageError(listing(errors))
    if patterns and all(pattern_of(name, patterns) for name in known):
        raise UsageError(f"{where}: {', '.join(patterns)} leaves no task")


def check_fit(
    tasks: Sequence[Task],
    sets: Sequence[ParameterSet],
    capacity: Capacity,
    budget: Budget,
    *,
    enforcement: Enforcement,
    admit: Admit,
    clamp: bool,
    check: Callable[[Task], object],
    excluded: Sequence[str] = (),
) -> None:
    """Refuse all tasks at once that cannot run here, and say which option leaves them out.

    `check` raises for what else an engine cannot do; `excluded` are the patterns given so far.

    Raises:
        UsageError: what does not fit, and the option.
    """
    errors: list[str] = []
    misfits: list[str] = []

    def granted(task: Task) -> list[Allocation]:
        fitted = allocate_task(task, sets, capacity, clamp=True)
        return [enforcement.granted(item.effective) for item in fitted.values()]

    steps: tuple[Callable[[Task], object], ...] = (
        check,
        lambda task: allocate_task(task, sets, capacity, clamp=clamp),
        lambda task: check_guarantees({task.name: granted(task)}, budget, admit=admit),
    )
    for task in tasks:
        found = [line for step in steps for line in _refusal(step, task)]
        errors += found
        misfits += [task.name] if found else []
    if errors:
        raise UsageError("\n".join([listing(errors), *_way_out(misfits, len(tasks), excluded)]))


def _refusal(step: Callable[[Task], object], task: Task) -> list[str]:
    try:
        step(task)
    except BackendUnavailableError:
        raise  # nothing fits an engine that is away
    except UsageError as error:
        return str(error).splitlines()
    return []


def _way_out(misfits: Sequence[str], known: int, excluded: Sequence[str]) -> list[str]:
    """Say which option leaves the misfits out, where that leaves any task."""
    rest = known - len(misfits)
    if not rest:
        return []
    option = shlex.quote(f"{OPTION}={','.join([*excluded, *map(_literal, misfits)])}")
    number, them = "1 task does", "it"
    if len(misfits) > 1:
        number, them = f"{len(misfits)} tasks do", "them"
    return [f"{number} not fit here; {option} leaves {them} out by name and runs the other {rest}"]


def _literal(name: str) -> str:
    """Return the pattern that matches a name (a comma would end it)."""
    return re.sub(r"([*?\[])", r"[\1]", name).replace(",", "?")
