"""Planned looks at a growing study: due by the number of samples, never by the clock.

A look after k samples is due when every selected trial of the samples 1 to k has ended, and it sees
the records of these samples alone. Under xdist trials of later samples may have begun by then; they
are recorded and wait for the next look. So the same records lead to the same decision, however many
workers there are and however fast.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_infranoise.analysis import Analysis
    from pytest_infranoise.statistics.sequential import Look


class LookSchedule:
    """Which planned looks are due, as the trials of a study end.

    Args:
        looks: The planned looks in their order.
        samples: The sample of every selected trial, by the id of its item.
    """

    def __init__(self, looks: Sequence["Look"], samples: Mapping[str, int]) -> None:
        self._ahead = list(looks)
        self._samples = dict(samples)
        self._open = Counter(self._samples.values())

    def end(self, item_id: str) -> list["Look"]:
        """Note that a trial has ended, with a record or without; return the looks due now."""
        sample = self._samples.pop(item_id, None)
        if sample is None:
            return []
        self._open[sample] -= 1
        return self.due()

    def due(self) -> list["Look"]:
        """Return the looks that are due now; each is returned once."""
        due = list(takewhile(self._is_due, self._ahead))
        del self._ahead[: len(due)]
        return due

    def _is_due(self, look: "Look") -> bool:
        return not any(number for sample, number in self._open.items() if sample <= look.samples)


def decides(
    look: "Look", records: Iterable[Mapping[str, Any]], manifest: Mapping[str, Any]
) -> bool:
    """Return whether every parameter set is different or equivalent at this look."""
    from pytest_infranoise.report.view import view_records

    view = view_records(records, {**manifest, "decided_at_look": look.number})
    return is_decided(view.analysis)


def is_decided(analysis: "Analysis") -> bool:
    """Return whether an analysis leaves nothing open; one without a comparison decides nothing."""
    return bool(analysis.comparisons) and not analysis.undecided
