"""The sentences for those who check: sensitivity lines, and every method with its n."""

from pytest_infranoise.analysis.figures import bare_p, p_value, percent, plural, points, span
from pytest_infranoise.analysis.results import Analysis, Comparison, Measure
from pytest_infranoise.statistics.intervals import Rate
from pytest_infranoise.statistics.signflip import DRAWS


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
    success = item.success
    if success.se_fixed is not None and success.difference is not None:
        half = 1.96 * success.se_fixed
        band = span((success.difference - half, success.difference + half))
        lines.append(f"sensitivity, {item.parameter_set}: these tasks only, fixed-task 95% {band}")
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
        "method: differences within tasks; exact two-sided sign-flip test on integer differences",
        "method: interval and equivalence by t with tasks - 1 degrees of freedom and a floored "
        f"standard error; TOST, margin +-{100 * settings.margin:.3g} points, "
        f"alpha {settings.alpha_equivalence:.3g}",
        f"method: Holm over {plural(len(analysis.comparisons), 'set')}, one family each for "
        f"success, infra errors and agent failures, alpha {settings.alpha_difference:.3g}",
    ]
    if any(
        contrast.method == "sign_flip_monte_carlo"
        for item in analysis.comparisons
        for contrast in item.measures
    ):
        lines.append(f"method: some p-values from {DRAWS} random sign assignments, fixed seed")
    for item in analysis.comparisons:
        lines += _contrast_methods(item)
    return lines + _ladder_methods(analysis)


def _contrast_methods(item: Comparison) -> list[str]:
    lines = []
    for contrast in item.measures:
        if contrast.se is None or contrast.p_tost is None or contrast.mde80 is None:
            continue
        which = "floor" if (contrast.se_floor or 0) >= (contrast.se_t or 0) else "t"
        holm = "" if contrast.p_holm is None else f", Holm {bare_p(contrast.p_holm)}"
        lines.append(
            f"method: {item.parameter_set} {contrast.measure}: n {contrast.n_tasks}, "
            f"{contrast.n_differing} differ, SE {100 * contrast.se:.2f} points ({which}), "
            f"{p_value(contrast.p_value or 0.0)}{holm}, TOST {p_value(contrast.p_tost)}, "
            f"detects {100 * contrast.mde80:.1f} points with 80% power"
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
