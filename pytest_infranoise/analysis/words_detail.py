"""The sentences for those who check: sensitivity lines, and every method with its n."""

from pytest_infranoise.analysis.figures import bare_p, p_value, percent, plural, points, span
from pytest_infranoise.analysis.results import Analysis, Comparison, Measure
from pytest_infranoise.statistics.intervals import Rate
from pytest_infranoise.statistics.within import DRAWS


def sensitivity(analysis: Analysis) -> list[str]:
    """Return the same data seen by other conventions."""
    lines = []
    for item in analysis.sets:
        if item.success is not None:
            detail = _set_detail(item.success, item.success_excluding_infra)
            lines.append(f"sensitivity, {item.id}: {detail}")
    for comparison in analysis.comparisons:
        lines += _comparison_detail(comparison)
    chosen = analysis.article_choice
    lines.append(
        "sensitivity, pooled trials taken as independent and p >= "
        f"{analysis.settings.alpha:g} taken as unchanged: "
        + (f"that rule would choose {chosen}" if chosen else "that rule would choose nothing")
    )
    return lines + _band_detail(analysis)


def _set_detail(success: Rate, excluding: float | None) -> str:
    parts = []
    if success.se_fixed is not None:
        parts.append(f"re-run noise on these tasks +-{100 * 1.96 * success.se_fixed:.1f} points")
    if success.se_task is not None:
        parts.append(f"standard error over tasks {100 * success.se_task:.1f} points")
    if excluding is not None:
        parts.append(f"success excluding infra errors {percent(excluding)} (descriptive only)")
    if success.icc is not None:
        parts.append(f"ICC {success.icc:.2f}")
    effective = f"design effect {success.deff:.2f}, {success.n_eff:.0f} effective trials"
    assumed = " (assumes independent trials)" if success.assumes_independence else ""
    return "; ".join([*parts, effective + assumed])


def _comparison_detail(item: Comparison) -> list[str]:
    lines = []
    success, like = item.success, item.success.like_these
    if like is not None and like.ci95 is not None:
        lines.append(
            f"sensitivity, {item.parameter_set}: tasks like these, {points(like.difference)} "
            f"points (95% CI {span(like.ci95)}), sign-flip test {p_value(like.p_value)}"
        )
    if item.cmh is not None and success.n_tasks > 1:
        lines.append(
            f"sensitivity, {item.parameter_set}: these exact tasks, Cochran-Mantel-Haenszel "
            f"chi-square {item.cmh.statistic:.2f}, {p_value(item.cmh.p_value)}"
        )
    return lines


def _band_detail(analysis: Analysis) -> list[str]:
    lines = []
    band = analysis.noise_band
    for name, part in (("declared noise band", band.declared), ("extremes", band.extremes)):
        if part is not None and part.contrast.difference is not None:
            interval = part.contrast.ci95
            shown = "" if interval is None else f" (95% CI {span(interval)})"
            lines.append(
                f"{name}: {part.floor} to {part.ceiling} "
                f"{points(part.contrast.difference)} points{shown}"
            )
    return lines


def methods(analysis: Analysis) -> list[str]:
    """Return every method behind the verdict with its n, K and correction."""
    settings = analysis.settings
    low, high = analysis.samples
    samples = plural(high, "sample") if low == high else f"{low} to {high} samples"
    lines = [
        f"method: {plural(analysis.n_tasks, 'task')}, {samples} per task and set, "
        f"{plural(analysis.n_trials, 'trial')}; first attempts count "
        f"({plural(analysis.later_attempts, 'later attempt')} kept out)",
        "method: rates are means over tasks; intervals Wilson 95% with trials / design effect",
        "method: the claims are about these tasks: exact two-sided permutation test within tasks",
        "method: intervals and equivalence by t with the within-task variances, their degrees of "
        "freedom and a floored standard error (with one sample: over tasks); TOST, margin "
        f"+-{100 * settings.margin:.3g} points, alpha {settings.alpha_equivalence:.3g}",
        f"method: {_correction(analysis)}, for success, infra errors and agent failures apart, "
        f"alpha {settings.alpha_difference:.3g}",
    ]
    ceiling = analysis.recommendation.ceiling
    if ceiling is not None:
        lines.append(
            f"method: the bounds on success and on the gain beyond repair are tested at {ceiling} "
            "first, which covers the sets below it, then upwards to the first that fails"
        )
    if any(
        contrast.method == "within_task_monte_carlo"
        for item in analysis.comparisons
        for contrast in item.measures
    ):
        lines.append(f"method: some p-values from {DRAWS} random draws, fixed seed")
    for item in analysis.comparisons:
        lines += _contrast_methods(item)
    return lines + _ladder_methods(analysis)


def _correction(analysis: Analysis) -> str:
    number = plural(len(analysis.comparisons), "set")
    if analysis.ladder is not None and analysis.ladder.is_ordered:
        return f"fixed sequence over {number} from the top down, to the first not significant"
    return f"Holm over {number}"


def _contrast_methods(item: Comparison) -> list[str]:
    lines = []
    for contrast in item.measures:
        if contrast.se is None or contrast.p_tost is None or contrast.mde80 is None:
            continue
        which = "floor" if (contrast.se_floor or 0) >= (contrast.se_plain or 0) else "plain"
        adjusted = (
            "" if contrast.p_adjusted is None else f", adjusted {bare_p(contrast.p_adjusted)}"
        )
        lines.append(
            f"method: {item.parameter_set} {contrast.measure}: n {contrast.n_tasks}, "
            f"{contrast.n_differing} differ, SE {100 * contrast.se:.2f} points ({which}), "
            f"{contrast.df} degrees of freedom, {p_value(contrast.p_value or 0.0)}{adjusted}, "
            f"TOST {p_value(contrast.p_tost)}"
        )
    return lines


def _ladder_methods(analysis: Analysis) -> list[str]:
    lines = []
    for measure, trend in analysis.trend.items():
        interval = trend.slope.ci95
        shown = "" if interval is None else f" (95% CI {span(interval)})"
        lines.append(
            f"method: trend of {measure} {points(trend.slope.difference)} points per step{shown}, "
            f"{p_value(trend.slope.p_value)}, {trend.slope.n_tasks} complete tasks, rank scores"
        )
    spread = analysis.spread.get(Measure.SUCCESS)
    if spread is not None:
        how = "9,999 permutations" if spread.method == "permutation" else "the normal limit of them"
        lines.append(f"method: spread by {how} of set labels within {spread.n_tasks} tasks")
    return lines
