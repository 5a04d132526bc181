"""The tables of a study as data, the same in every kind of report."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pytest_infranoise.analysis import Analysis, Comparison, MeasureContrast, SetResult
from pytest_infranoise.analysis.figures import bare_p, percent, points
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.report.model import Column
from pytest_infranoise.statistics.intervals import Interval

SHOWN_OUTCOMES = (
    Outcome.PASSED,
    Outcome.FAILED,
    Outcome.TIMEOUT,
    Outcome.OOM,
    Outcome.INFRA_ERROR,
)
"""The order in which outcomes are shown, from the agent's doing to the host's."""

INFRA_NOTE = "infra errors = oom + infra"


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a caption; the first cell of a row is its heading."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


def outcome_word(outcome: Outcome) -> str:
    """Return an outcome as tables name it: `infra_error` is `infra`."""
    return "infra" if outcome is Outcome.INFRA_ERROR else outcome.value


def set_table(analysis: Analysis) -> Table:
    """Return outcomes and rates of every parameter set."""
    columns = (
        Column("set"),
        *(Column(outcome_word(outcome), ">") for outcome in SHOWN_OUTCOMES),
        Column("success", ">"),
        Column("95% CI"),
        Column("infra errors", ">"),
        Column("95% CI"),
    )
    unknown = () if analysis.settings.records_kills else (Outcome.OOM,)
    rows = tuple(_set_row(item, unknown) for item in analysis.sets)
    return Table(f"outcomes per parameter set ({INFRA_NOTE})", columns, rows)


def _set_row(item: SetResult, unknown: Collection[Outcome]) -> tuple[str, ...]:
    """Return a set's row; where an outcome cannot be known, no number is no 0."""
    numbers = {outcome: item.outcomes.get(outcome, 0) for outcome in SHOWN_OUTCOMES}
    counts = [
        str(number) if number or outcome not in unknown else "-"
        for outcome, number in numbers.items()
    ]
    cells = []
    for rate in (item.success, item.infra_error):
        cells += ["-", ""] if rate is None else [percent(rate.macro), per_cent_span(rate.ci95)]
    return (item.id, *counts, *cells)


def per_cent_span(interval: Interval) -> str:
    """Return `[20.5, 73.0]`, in per cent."""
    return f"[{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]"


def comparison_table(analysis: Analysis) -> Table | None:
    """Return every set against the baseline; None where nothing is compared."""
    if not analysis.comparisons or analysis.baseline is None:
        return None
    ladder = analysis.ladder
    how = "in sequence" if ladder is not None and ladder.is_ordered else "Holm"
    columns: tuple[Column, ...] = (
        Column(f"against {analysis.baseline}"),
        Column("lift, points", ">"),
        Column("[95% CI]"),
        Column(f"p ({how})"),
        Column("infra errors, points", ">"),
        Column(f"p ({how})"),
    )
    rows = tuple(_comparison_row(item) for item in analysis.comparisons)
    if analysis.settings.fit_only:  # copies of one solution have no p-values
        kept = [
            index for index, column in enumerate(columns) if not column.heading.startswith("p ")
        ]
        columns = tuple(columns[index] for index in kept)
        rows = tuple(tuple(row[index] for index in kept) for row in rows)
    return Table(f"differences from {analysis.baseline}, paired by task", columns, rows)


def _comparison_row(item: Comparison) -> tuple[str, ...]:
    lift, infra = item.success, item.infra_error
    return (
        item.parameter_set,
        moved(lift),
        points_span(lift.ci95),
        _p(lift),
        moved(infra),
        _p(infra),
    )


def moved(contrast: MeasureContrast) -> str:
    """Return a difference in points, a dash where there is none."""
    return "-" if contrast.difference is None else points(contrast.difference)


def points_span(interval: Interval | None) -> str:
    """Return an interval in points; nothing lies beyond 100."""
    if interval is None:
        return ""
    low, high = (points(min(1.0, max(-1.0, value))) for value in interval)
    return f"[{low}, {high}]"


def _p(contrast: MeasureContrast) -> str:
    if contrast.p_value is None:
        return "-"
    if contrast.p_adjusted is None:
        return bare_p(contrast.p_value)
    adjusted = bare_p(contrast.p_adjusted) if contrast.is_tested else "not tested"
    return f"{bare_p(contrast.p_value)} ({adjusted})"


def counts_words(counts: Mapping[Outcome, int] | None) -> str:
    """Return `3 passed, 2 oom`, or a dash where the task never ran."""
    shown = [
        f"{number} {outcome_word(outcome)}"
        for outcome in SHOWN_OUTCOMES
        if (number := (counts or {}).get(outcome, 0))
    ]
    return ", ".join(shown) or "-"
