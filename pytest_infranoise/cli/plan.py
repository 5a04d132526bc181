"""`infranoise plan`: what a design can detect, and what it costs."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from pytest_infranoise.cli.exits import Exit
from pytest_infranoise.cli.output import print_json, print_lines
from pytest_infranoise.cli.values import points, positive, whole_number, whole_numbers
from pytest_infranoise.errors import UsageError
from pytest_infranoise.report.model import Column, Line, table_lines

if TYPE_CHECKING:
    from pytest_infranoise.analysis.planning import Design, Plan, PlanRow
    from pytest_infranoise.statistics.power import TrialVariance
    from pytest_infranoise.study.store import Study


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Print how many samples per task find a difference, or show equal sets equivalent, with "
        "80 % power at 5 %, and what each number of samples detects and costs."
    )
    parser.epilog = """\
points are written 2pp, 2% or 0.02

examples:
  infranoise plan --tasks 89 --detect 2pp --cost-per-trial 0.40
  infranoise plan --from .infranoise/2026-12-01T10-22-31Z-5f3a --detect 2pp
"""
    add = parser.add_argument
    add("--tasks", metavar="N", type=whole_number("--tasks", least=2), help="tasks of the study")
    add("--sets", metavar="N", type=whole_number("--sets", least=2), help="parameter sets")
    add(
        "--detect",
        metavar="POINTS",
        type=points("--detect"),
        default=0.02,
        help="the smallest difference that matters (default: 2pp)",
    )
    add(
        "--margin",
        metavar="POINTS",
        type=points("--margin"),
        default=0.03,
        help="what counts as equivalent (default: 3pp)",
    )
    add(
        "--samples",
        metavar="LIST",
        type=whole_numbers("--samples"),
        help="numbers of samples to show (default: 1,3,5,10,20)",
    )
    add(
        "--from",
        dest="study",
        metavar="STUDY",
        type=Path,
        help="take tasks, sets, variances and seconds per trial from this study",
    )
    add("--cost-per-trial", metavar="MONEY", type=positive("--cost-per-trial"))
    add("--seconds-per-trial", metavar="SECONDS", type=positive("--seconds-per-trial"))
    add(
        "--parallel",
        metavar="N",
        type=whole_number("--parallel"),
        help="trials that run at once (default: as many as in the study, else 1)",
    )
    add("--format", choices=("text", "json"), default="text", help="default: text")


def run(arguments: Namespace) -> int:
    """Print the plan."""
    from pytest_infranoise.analysis.planning import USUAL_SAMPLES, plan

    sources = _Sources(None, None, 1, None, "assumed, since no study was given")
    if arguments.study is not None:
        sources = _sources(arguments.study)
    made = plan(_design(arguments, sources), arguments.samples or USUAL_SAMPLES)
    if arguments.format == "json":
        print_json(made.to_json())
    else:
        print_lines(plan_lines(made, sources.variance_words))
    return Exit.FINE


@dataclass(frozen=True, slots=True)
class _Sources:
    """What an earlier study says of the next one; None is unknown."""

    n_tasks: int | None
    n_sets: int | None
    parallel: int
    seconds_per_trial: float | None
    variance_words: str
    variance: "TrialVariance | None" = None


def _sources(directory: Path) -> _Sources:
    from pytest_infranoise.analysis.planning import variance_of
    from pytest_infranoise.report.view import view_study
    from pytest_infranoise.study.store import load_study

    study = load_study(directory)
    analysis = view_study(study).analysis
    workers = study.manifest.data.get("workers")
    known = _Sources(
        analysis.n_tasks or None,
        len(analysis.sets) if len(analysis.sets) > 1 else None,
        max(1, workers) if isinstance(workers, int) else 1,
        _mean_seconds(study),
        "",
    )
    if analysis.settings.fit_only:
        words = "assumed: the study's agent is the reference solution, which says nothing of others"
        return replace(known, variance_words=words)
    if not analysis.comparisons:
        return replace(known, variance_words="assumed, since the study compares no two sets")
    variance = variance_of(analysis)
    if variance.assumed:
        words = "assumed in part: the study has no task with two samples in one set"
        return replace(known, variance_words=words, variance=variance)
    return replace(known, variance_words="from the study", variance=variance)


def _mean_seconds(study: "Study") -> float | None:
    times = [record.get("wall_seconds") for record in study.records()]
    numbers = [time for time in times if isinstance(time, int | float)]
    return fmean(numbers) if numbers else None


def _design(arguments: Namespace, sources: _Sources) -> "Design":
    from pytest_infranoise.analysis.planning import Design
    from pytest_infranoise.statistics.power import TrialVariance

    tasks = arguments.tasks or sources.n_tasks
    if tasks is None:
        raise UsageError("plan: how many tasks? Give --tasks N or --from STUDY")
    return Design(
        n_tasks=tasks,
        n_sets=arguments.sets or sources.n_sets or 2,
        effect=arguments.detect,
        margin=arguments.margin,
        variance=sources.variance or TrialVariance(),
        seconds_per_trial=arguments.seconds_per_trial or sources.seconds_per_trial,
        cost_per_trial=arguments.cost_per_trial,
        parallel=arguments.parallel or sources.parallel,
    )


def plan_lines(plan: "Plan", variance_words: str) -> Iterator[Line]:
    """Return the plan in words: the design, what its questions need, what samples buy."""
    design = plan.design
    yield Line(f"{design.n_tasks} tasks x {design.n_sets} parameter sets, paired by task", "bold")
    yield Line(f"variance of a trial {design.variance.value:.3f} ({variance_words})")
    yield Line(
        f"to find a difference of {100 * design.effect:.3g} points: "
        + _needed(plan.samples_for_difference)
    )
    yield Line(
        f"to show equal sets equivalent within +-{100 * design.margin:.3g} points: "
        + _needed(plan.samples_for_equivalence)
    )
    yield from _rows(plan)
    yield Line("each with 80% power at an error rate of 5%, for one comparison", "dim")
    if design.seconds_per_trial is not None:
        yield Line(
            f"hours at {design.seconds_per_trial:.3g} seconds per trial, {design.parallel} at once",
            "dim",
        )


def _needed(samples: int) -> str:
    return f"{samples} sample{'s' * (samples != 1)} per task"


def _rows(plan: "Plan") -> list[Line]:
    design = plan.design
    columns = [
        Column("samples", ">"),
        Column("trials", ">"),
        Column("detects, points", ">"),
        Column("equivalent within, points", ">"),
    ]
    if design.seconds_per_trial is not None:
        columns.append(Column("hours", ">"))
    if design.cost_per_trial is not None:
        columns.append(Column("cost", ">"))
    return table_lines(columns, map(_cells, plan.rows))


def _cells(row: "PlanRow") -> list[str]:
    cells = [
        str(row.samples),
        str(row.trials),
        f">= {100 * row.detectable:.1f}",
        f"+-{100 * row.margin_shown:.1f}",
    ]
    if row.hours is not None:
        cells.append(f"{row.hours:.1f}" if row.hours >= 0.1 else f"{row.hours:.3f}")
    if row.cost is not None:
        cells.append(f"{row.cost:,.2f}")
    return cells
