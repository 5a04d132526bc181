"""From a study's view and its records to the page."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pytest_infranoise import __version__
from pytest_infranoise.analysis import Analysis
from pytest_infranoise.analysis.figures import plural
from pytest_infranoise.analysis.gates import GateResult
from pytest_infranoise.analysis.words import detail_lines
from pytest_infranoise.analysis.words_answer import answer_lines
from pytest_infranoise.analysis.words_contrasts import comparison_lines, movement_lines
from pytest_infranoise.analysis.words_detail import methods, sensitivity
from pytest_infranoise.report.card import card_text
from pytest_infranoise.report.gates import gate_lines
from pytest_infranoise.report.page.about import facts, manifest_text
from pytest_infranoise.report.page.charts import infra_error_chart, lift_chart, success_chart
from pytest_infranoise.report.page.gather import gather
from pytest_infranoise.report.page.model import Page
from pytest_infranoise.report.page.tasks import task_map
from pytest_infranoise.report.page.timeline import timeline
from pytest_infranoise.report.tables import comparison_table, set_table
from pytest_infranoise.report.terminal import what_ran
from pytest_infranoise.report.view import StudyView, parameter_sets


def make_page(
    view: StudyView,
    records: Iterable[Mapping[str, Any]],
    *,
    gates: Sequence[GateResult] = (),
    problems: Sequence[str] = (),
    made_at: datetime | None = None,
) -> Page:
    """Return what a written report says.

    Args:
        view: The study, analysed.
        records: Its records, for what the figures do not hold: peaks and the output of trials.
        gates: What had to hold, judged.
        problems: What went wrong while it was written.
        made_at: The time to name as the report's own; None is now.

    Raises:
        UsageError: the manifest or a record cannot be read.
    """
    analysis = view.analysis
    sets = parameter_sets(view.manifest)
    found = gather(records, last_sample=max(view.table.sample, default=0))
    top, *answer = answer_lines(analysis)
    compared, moved = _compared(analysis), _moved(analysis)
    ran, warned = _heads(view)
    return Page(
        study=str(view.manifest.get("study")),
        headline=top,
        answer=tuple(answer),
        what_ran=ran,
        verdict=tuple(detail_lines(analysis)),
        gates=tuple(line.text for line in gate_lines(gates)),
        compared=compared,
        moved=moved,
        warnings=(*warned, *_counted_out(view), *_left_out(view.manifest), *problems),
        sets=set_table(analysis),
        comparisons=comparison_table(analysis),
        success=success_chart(analysis, sets),
        infra_errors=infra_error_chart(analysis, sets),
        lift=lift_chart(analysis),
        tasks=task_map(view, found.memory, sets),
        timeline=timeline(view),
        trials=tuple(found.notes),
        trials_left_out=found.special - len(found.notes),
        facts=facts(view),
        card=tuple(card_text(view.manifest).items()),
        methods=_without_prefix(methods(analysis)) if analysis.n_trials else (),
        sensitivity=_without_prefix(sensitivity(analysis)) if analysis.n_trials else (),
        manifest=manifest_text(view.manifest),
        made_by=_made_by(made_at or datetime.now(UTC)),
    )


def _compared(analysis: Analysis) -> tuple[str, ...]:
    """Return what each set shows against the baseline."""
    return tuple(
        line
        for item in analysis.comparisons
        for line in comparison_lines(item, analysis, with_figures=False)
    )


def _moved(analysis: Analysis) -> tuple[str, ...]:
    """Return which tasks moved between the baseline and each set."""
    return tuple(line for item in analysis.comparisons for line in movement_lines(item))


def _heads(view: StudyView) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what ran, and what a reader is warned of."""
    lines = list(what_ran(view))
    return (
        tuple(line.text for line in lines if line.style != "warn"),
        tuple(line.text for line in lines if line.style == "warn"),
    )


def _counted_out(view: StudyView) -> Iterator[str]:
    """Say which trials are in no figure."""
    analysis = view.analysis
    if analysis.later_attempts:
        yield f"{plural(analysis.later_attempts, 'later attempt')} kept out of every rate"
    missing = 0 if view.planned is None else view.planned - analysis.n_trials
    if missing > 0 and not view.is_growing and analysis.settings.look is None:
        yield f"{missing} of {view.planned} planned trials have no result"


def _left_out(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Name what the run itself noted, and the tasks that it left out."""
    for note in manifest.get("notes") or ():
        yield str(note)
    if names := manifest.get("excluded_tasks"):
        yield f"left out by --infra-exclude: {', '.join(map(str, names))}"
    for item in manifest.get("oracle_screen") or ():
        if isinstance(item, Mapping) and item.get("reason"):
            yield f"left out by the oracle screen: {item.get('task')}: {item['reason']}"


def _without_prefix(lines: Iterable[str]) -> tuple[str, ...]:
    """Return lines without what the heading above them says."""
    return tuple(line.removeprefix("method: ").removeprefix("sensitivity, ") for line in lines)


def _made_by(moment: datetime) -> str:
    return f"made by pytest-infranoise {__version__} on {moment:%Y-%m-%d %H:%M:%S} UTC"
