"""Which trials a session runs, in which order and under which numbers."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path

from pytest_infranoise.design import UNKNOWN_PLACE, Place, Trial, TrialOrder
from pytest_infranoise.plugin.settings import Settings
from pytest_infranoise.study.progress import DONE, NextAttempts


class Schedule:
    """The order of a run's trials, the same in every process of it.

    `tasks` (folders that are collected) and `left_out` (with a reason each) are read when they are
    asked for, since both become known while the run is prepared. `recorded` says of each trial on
    record which attempt would be its next, `ranks` the places of tasks that are not shuffled.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        seed: int,
        extended_from: Sequence[int],
        recorded: NextAttempts,
        tasks: Mapping[Path, str],
        left_out: Mapping[str, str],
    ) -> None:
        self.recorded = recorded
        self.extended_from = tuple(extended_from)
        self._settings = settings
        self._seed = seed
        self._tasks = tasks
        self._left_out = left_out
        self.ranks: dict[str, int] = {}
        self._places: dict[Trial, Place] = {}

    @property
    def order(self) -> TrialOrder:
        """The order of all trials of the design."""
        settings = self._settings
        ids = tuple(item.id for item in settings.sets)
        return TrialOrder(self._seed, ids, settings.order, self.extended_from, self.ranks)

    @property
    def finished(self) -> int:
        """How many trials are on record and do not run again."""
        return sum(attempt == DONE for attempt in self.recorded.values())

    def go_on(self, recorded: NextAttempts, extended_from: Sequence[int]) -> None:
        """Learn what is on record of a study that goes on, before anything is collected."""
        self.recorded = recorded
        self.extended_from = tuple(extended_from)

    def rank(self, tests: Iterable[Trial]) -> None:
        """Keep the order in which the trials of marked tests were collected, where that is kept.

        It is with `--infra-order=file`, as that of task folders, and where there is nothing to
        compare: one parameter set and one sample.
        """
        names: list[str] = []
        if self._settings.order == "file":
            names += self._tasks.values()
        if self._settings.order == "file" or self._settings.is_single:
            names += (name for name, _, _ in tests)
        self.ranks = {name: number for number, name in enumerate(dict.fromkeys(names))}

    def place(self, trials: Iterable[Trial]) -> None:
        """Number blocks and positions of the selected trials (task, parameter set, sample).

        Counted along are all trials of the known task folders and all that are on record, so that
        a trial's numbers do not depend on how much of its study is selected here.
        """
        sets = [item.id for item in self._settings.sets]
        samples = range(1, self._settings.samples + 1)
        design = product(self._tasks.values(), sets, samples)
        self._places = self.order.places({*trials, *design, *self.recorded})

    def place_of(self, trial: Trial) -> Place:
        """Return block and position of a selected trial."""
        return self._places.get(trial, UNKNOWN_PLACE)

    def attempt_of(self, trial: Trial) -> int:
        """Return the number of a trial's next attempt."""
        return self.recorded.get(trial, 1)

    def unselected(self, selected: Iterable[Trial]) -> int:
        """How many trials of the collected tasks the design has here that were not selected.

        That is what an id, `-k`, `--lf` or `--deselect` leaves out.
        """
        chosen, sets = set(selected), [item.id for item in self._settings.sets]
        design = product(self._tasks.values(), sets, range(1, self._settings.samples + 1))
        return sum(trial not in chosen and self.is_wanted(trial) for trial in design)

    def is_wanted(self, trial: Trial) -> bool:
        """Whether a trial is to run in this session: in this shard, and not on record."""
        shard, (block, _) = self._settings.shard, self.place_of(trial)
        in_shard = shard is None or shard.holds(block)
        return in_shard and self.attempt_of(trial) != DONE and trial[0] not in self._left_out
