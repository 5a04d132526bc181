"""The line that says how far a running study is: trials, kills, and when it will end.

It is a line of its own between those that pytest prints, so that it reads the same on a terminal,
in the log of a CI job, under xdist and with captured output; it comes seldom. Nothing is said
before there is something to say: a study that ends within the first half minute prints none.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from pytest_infranoise.model.outcome import Cause, Outcome

FIRST_SECONDS = 30.0
"""No line before this, and none within this after another."""

TERMINAL_SECONDS = 60.0
"""How often a line comes where somebody watches."""

LOG_SECONDS = 300.0
"""How often a line comes in a log."""

LOG_SHARE = 0.1
"""In a log, a line comes also when this share of the trials has ended since the last one."""

LEAST_TRIALS = 8
"""An end is estimated from so many trials on, and from three times the number of workers."""

_KILL_SETS = 4
_FOREIGN = (Cause.HOST_MEMORY, Cause.UNATTRIBUTED_KILL)

Cell = tuple[str, str]
"""Task and parameter set."""


class Durations:
    """How long trials took, and from that how long others will take.

    A trial is expected to take the mean of its task in its set, else of its task, else of all.
    """

    def __init__(self) -> None:
        self.number = 0
        self.seconds = 0.0
        self._cells: dict[Any, list[float]] = defaultdict(lambda: [0, 0.0])

    def add(self, cell: Cell, seconds: float) -> None:
        """Note one trial's duration."""
        self.number += 1
        self.seconds += seconds
        for key in (cell, cell[0]):
            self._cells[key][0] += 1
            self._cells[key][1] += seconds

    def expected(self, left: Mapping[Cell, int]) -> float | None:
        """Return the summed seconds that trials will take; None before any has ended."""
        if not self.number:
            return None
        return sum(number * self._mean(cell) for cell, number in left.items())

    def _mean(self, cell: Cell) -> float:
        for key in (cell, cell[0]):
            if key in self._cells:
                number, seconds = self._cells[key]
                return seconds / number
        return self.seconds / self.number


class ProgressLine:
    """Follows the trials of a session and says now and then how far they are.

    Args:
        trials: Task, parameter set and sample of every selected trial, by the id of its item.
        finished: Trials of the study that other sessions have ended.
        workers: How many trials may run at once.
        is_watched: Whether the output is a terminal.
        is_bounded: Whether later trials may turn out not to be needed.
        clock: Seconds, as `time.monotonic` counts them.
        now: The local time of day.
    """

    def __init__(
        self,
        trials: Mapping[str, tuple[str, str, int]],
        *,
        finished: int = 0,
        workers: int = 1,
        is_watched: bool = False,
        is_bounded: bool = False,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self._open = {item: (task, set_id) for item, (task, set_id, _) in trials.items()}
        self._left = Counter(self._open.values())
        self._finished = finished
        self._total = finished + len(self._open)
        self._workers = max(1, workers)
        self._is_watched = is_watched
        self._is_bounded = is_bounded
        self._clock, self._now = clock, now
        self._begin = self._last = clock()
        self._last_finished = finished
        self._durations = Durations()
        self._kills: Counter[str] = Counter()
        self._uncounted: Counter[str] = Counter()
        self._seen = dict.fromkeys(set_id for _, set_id in self._open.values())

    def end(self, item_id: str, records: Iterable[Mapping[str, Any]]) -> str | None:
        """Note that a trial has ended, with its record or without; return a line if one is due."""
        cell = self._open.pop(item_id, None)
        if cell is None:
            return None
        self._left[cell] -= 1
        self._finished += 1
        for record in records:
            self._note(cell, record)
        if not self._is_due():
            return None
        self._last, self._last_finished = self._clock(), self._finished
        return self.line()

    def line(self) -> str:
        """Return how far the study is."""
        left = self._total - self._finished
        parts = [f"{self._finished} of {self._total} trials ended, {left} left", self._kill_words()]
        if (seconds := self.seconds_left()) is not None:
            parts.append(_end_words(seconds, self._now(), is_bounded=self._is_bounded))
        return "infranoise: " + "; ".join(parts)

    def seconds_left(self) -> float | None:
        """Return how long the rest will take; None while too few trials have ended to say.

        Trials ran side by side, and waited for memory, as much as they did so far.
        """
        durations, elapsed = self._durations, self._clock() - self._begin
        if durations.number < max(LEAST_TRIALS, 3 * self._workers) or not durations.seconds:
            return None
        expected = durations.expected(+self._left)
        return None if expected is None else expected * elapsed / durations.seconds

    def _note(self, cell: Cell, record: Mapping[str, Any]) -> None:
        wall = record.get("wall_seconds")
        if isinstance(wall, int | float):
            self._durations.add(cell, wall)
        kills = record.get("oom_kills")
        own = record.get("cause") not in _FOREIGN
        least = int(record.get("outcome") == Outcome.OOM)
        self._kills[cell[1]] += max(kills or 0, least) if own else 0
        self._uncounted[cell[1]] += kills is None

    def _is_due(self) -> bool:
        if not self._open:
            return False  # the summary follows
        passed = self._clock() - self._last
        if passed < FIRST_SECONDS:
            return False
        if self._is_watched:
            return passed >= TERMINAL_SECONDS
        share = (self._finished - self._last_finished) / self._total
        return passed >= LOG_SECONDS or share >= LOG_SHARE

    def _kill_words(self) -> str:
        """Return the kills per set so far; where no counter could be read, that is no 0."""
        hit = [name for name in self._seen if self._kills[name]]
        counted = all(not number for number in self._uncounted.values())
        if not hit:
            return "no kill so far" if counted else "kills not counted in every trial"
        least = "" if counted else "at least "
        shown = [f"{self._kills[name]} at {name}" for name in hit[:_KILL_SETS]]
        if len(hit) > _KILL_SETS:
            shown.append(f"more at {len(hit) - _KILL_SETS} other sets")
        return f"kills so far: {least}{', '.join(shown)}"


class WaitLine:
    """Decides when to say again that trials wait: at once, then seldom, however many do.

    Args:
        clock: Seconds, as `time.monotonic` counts them.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kind = ""
        self._last = 0.0

    def is_due(self, kind: str) -> bool:
        """Whether a line of this kind is to be printed: after another kind, or after a while."""
        now = self._clock()
        if kind == self._kind and now - self._last < TERMINAL_SECONDS:
            return False
        self._kind, self._last = kind, now
        return True


def _end_words(seconds: float, now: datetime, *, is_bounded: bool) -> str:
    """Return when the study will end, in words no more exact than the estimate is."""
    end = now + timedelta(seconds=seconds)
    clock = end.strftime("%H:%M") if end.date() == now.date() else end.strftime("%a %d %b, %H:%M")
    about = "at most about" if is_bounded else "about"
    return f"{about} {_duration(seconds)} more, until {clock}"


def _duration(seconds: float) -> str:
    minutes = max(1, round(seconds / 60))
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 10 * 60:
        hours, rest = divmod(5 * round(minutes / 5), 60)
        return f"{hours} h" + (f" {rest} min" if rest else "")
    return f"{round(minutes / 60)} h"
