"""The sentences about a study that has not run, and about two entries held side by side."""

from pytest_infranoise.analysis.entries import (
    EntryComparison,
    Infrastructure,
    Lead,
    PublishedComparison,
)
from pytest_infranoise.analysis.figures import p_value, percent, plural, points, span
from pytest_infranoise.analysis.planning import Design, plan, plan_row
from pytest_infranoise.statistics.paired import Paired

SCEPTICISM = (
    "a lead below 3 points deserves scepticism until the resource configuration is documented "
    "and matched"
)

_LEADS = {
    Lead.BEYOND_BOTH: "larger than sampling noise and infrastructure noise together",
    Lead.BEYOND_SAMPLING: "larger than sampling noise only, not than infrastructure noise on top",
    Lead.WITHIN_SAMPLING: "not larger than sampling noise",
    Lead.BEYOND_SAMPLING_MATCHED: "larger than sampling noise",
    Lead.BEYOND_SAMPLING_BAND_UNKNOWN: (
        "larger than sampling noise; the infrastructure noise is unknown"
    ),
    Lead.UNDEFINED: "undecided: fewer than two common tasks",
}


def design_line(design: Design, samples: int) -> str:
    """Return in one line what a design can detect, before a single trial runs.

    Raises:
        UsageError: Fewer than two tasks or sets, or no sample.
    """
    needed = plan(design, (samples,)).samples_for_equivalence
    row = plan_row(design, samples)
    variance = design.variance
    how = "assumed" if variance.assumed else "measured"
    return (
        f"{plural(design.n_tasks, 'task')} x {plural(samples, 'sample')}: detects changes of "
        f"{100 * row.detectable:.1f} points or more with 80% power; equivalence within "
        f"+-{100 * design.margin:.3g} points needs about {plural(needed, 'sample')} per task "
        f"(trial variance {variance.value:.2g} {how})"
    )


def entry_lines(item: EntryComparison, names: tuple[str, str]) -> list[str]:
    """Return how two entries compare, A and B by name."""
    contrast, (a, b) = item.contrast, names
    if contrast.difference is None or contrast.value is None or contrast.baseline_value is None:
        return [f"{a} at {item.set_a}, {b} at {item.set_b}: no task ran in both"]
    text = (
        f"{a} {percent(contrast.baseline_value)} at {item.set_a}, {b} {percent(contrast.value)} at "
        f"{item.set_b}: {points(contrast.difference)} points"
    )
    if contrast.ci95 is not None:
        text += f" (95% CI {span(contrast.ci95)})"
    if contrast.p_value is not None:
        text += f", {p_value(contrast.p_value)}"
    text += f", {plural(contrast.n_tasks, 'task')}, paired by task"
    return [text, *_lead_lines(item.lead, item.half_width, item.infrastructure, item.sceptical)]


def published_lines(item: PublishedComparison, n_tasks: int) -> list[str]:
    """Return how two published scores compare."""
    return [
        f"{points(item.difference)} points, unpaired (95% CI {span(item.ci95)} with "
        f"{plural(n_tasks, 'task')}; {span(item.ci95_independent)} if all trials were independent)",
        *_lead_lines(item.lead, item.half_width, item.infrastructure, item.sceptical),
    ]


def _lead_lines(
    lead: Lead, half_width: float | None, infrastructure: Infrastructure, sceptical: bool
) -> list[str]:
    if half_width is None:
        return [f"the difference is {_LEADS[lead]}"]
    # With few tasks the interval is wider than the scale itself.
    held = f"sampling {'> 100' if half_width > 1 else f'+-{100 * half_width:.1f}'} points"
    if infrastructure.match:
        held += "; configurations match"
    elif infrastructure.band is not None:
        held += (
            f", infrastructure another {100 * abs(infrastructure.band):.1f} +- "
            f"{100 * infrastructure.half_width:.1f}"
        )
    lines = [f"the difference is {_LEADS[lead]} ({held})"]
    return [*lines, SCEPTICISM] if sceptical else lines


def interaction_line(result: Paired) -> str:
    """Return whether a lead depends on the parameter set."""
    interval = "" if result.ci95 is None else f" (95% CI {span(result.ci95)})"
    return (
        f"difference of the two lifts {points(result.difference)} points{interval}, "
        f"{p_value(result.p_value)}, "
        f"{plural(result.n_tasks, 'task')}"
    )
