"""How often the verdict is wrong: simulated studies with known truth.

    python benchmarks/validity.py                  # short, a minute: what CI runs
    python benchmarks/validity.py --long           # the table of docs/validity.md
    python benchmarks/validity.py --long --write docs/validity.md

Each study has 89 tasks with difficulty Beta(0.4, 0.4), drawn anew, the sets 1x, 3x and uncapped,
and infra error rates of 5.8, 2.1 and 0.5 % that sit in a quarter of the tasks and hit runs that
would have failed anyway. Every figure is the share of studies, beside its Monte Carlo standard
error. Exits with 1 if a figure breaks its bound by more than three standard errors.
"""

import argparse
import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_infranoise.analysis import AnalysisSettings, Measure, MeasureContrast, Status
from pytest_infranoise.analysis.contrasts import Events, measure_contrast, with_family
from pytest_infranoise.analysis.movement import movements
from pytest_infranoise.statistics import drift, spread, trend
from pytest_infranoise.statistics.intervals import rate
from pytest_infranoise.statistics.recommend import RecommendationStatus, Step, choose
from pytest_infranoise.statistics.sequential import planned_looks

TASKS = 89
SETS = ("1x", "3x", "uncapped")
INFRA = (0.058, 0.021, 0.005)
SAMPLES = (1, 3, 5, 10)
MARGIN = 0.03
RESAMPLES = 199
NAMES = tuple(f"t{index}" for index in range(TASKS))
SETTINGS = AnalysisSettings(margin=MARGIN)
LOOKS = planned_looks(12)

Floats = NDArray[np.float64]
Generator = np.random.Generator


@dataclass(frozen=True)
class Truth:
    """Chances per task and set, shape (tasks, sets), and what they are on average over tasks."""

    success: Floats
    infra: Floats
    lift: tuple[float, ...]
    infra_mean: tuple[float, ...]


@dataclass(frozen=True)
class Scenario:
    """A population of studies: `lift` per set; `effects` spreads true effects around it."""

    name: str
    lift: tuple[float, float, float] = (0.0, 0.0, 0.0)
    infra: tuple[float, float, float] = INFRA
    effects: str = "none"

    def draw(self, generator: Generator) -> Truth:
        """Draw the tasks of one study."""
        p = generator.beta(0.4, 0.4, TASKS)
        heavy = 4.0 * (generator.random(TASKS) < 0.25)
        # E[(1 - p) heavy] = 1/2, so that the mean over tasks is the scenario's rate.
        infra = np.outer(2 * (1 - p) * heavy, self.infra)
        room = 1 - p[:, None] - infra
        share = np.array(self.lift) / (0.5 - np.array(self.infra))
        success = p[:, None] + share * room
        if self.effects != "none":
            reach = np.minimum(p[:, None], room) * np.array([0.0, 1.0, 1.0])
            success = success + self._moves(generator)[:, None] * reach
        return Truth(success, infra, self.lift, self.infra)

    def _moves(self, generator: Generator) -> Floats:
        if self.effects == "symmetric":
            return 0.5 * generator.choice([-1.0, 1.0], TASKS)
        # One task in five gains four times what each of the others loses: skewed, mean zero.
        return np.where(generator.random(TASKS) < 0.2, 0.6, -0.15)


NO_EFFECT = Scenario("no effect")
SAME_INFRA = Scenario("no effect, equal infra errors", infra=(0.058,) * 3)
MIXED = Scenario("heterogeneous null", effects="symmetric")
SKEWED = Scenario("skewed null", effects="skewed")
AT_MARGIN = Scenario("+3 points (the margin)", lift=(0.0, MARGIN, MARGIN))
FOUR = Scenario("+4 points", lift=(0.0, 0.04, 0.04))
SIX = Scenario("+6 points", lift=(0.0, 0.06, 0.06))
SCENARIOS = (NO_EFFECT, SAME_INFRA, MIXED, SKEWED, AT_MARGIN, FOUR, SIX)
NULLS = (NO_EFFECT, SAME_INFRA, MIXED, SKEWED)


def simulate(truth: Truth, samples: int, generator: Generator) -> tuple[Events, Events]:
    """Return successes and infra errors of one study."""
    trials = np.full(truth.success.shape, samples)
    passed = generator.binomial(trials, truth.success)
    conditional = np.clip(truth.infra / np.maximum(1e-12, 1 - truth.success), 0, 1)
    infra = generator.binomial(trials - passed, conditional)
    return Events(passed, trials), Events(infra, trials)


def contrasts(
    measure: Measure, events: Events, settings: AnalysisSettings = SETTINGS
) -> list[MeasureContrast]:
    """Return 3x and uncapped against 1x, as a Holm family."""
    family = (
        measure_contrast(measure, events.column(0), events.column(other), settings)
        for other in (1, 2)
    )
    return with_family(family, settings)


class Shares:
    """Counts how often a claim was made; bounds say how often it may be."""

    def __init__(self) -> None:
        self.hits: dict[tuple[str, str, int], list[bool]] = defaultdict(list)
        self.bounds: dict[tuple[str, str, int], tuple[str, float]] = {}
        self.t_tests: dict[tuple[str, int], list[float]] = defaultdict(list)

    def add(self, claim: str, scenario: str, samples: int, hit: bool, bound: str = "") -> None:
        """Count one study; `bound` is how often the claim may be made, such as <=0.05."""
        key = (claim, scenario, samples)
        self.hits[key].append(bool(hit))
        if bound:
            self.bounds[key] = (bound[:2], float(bound[2:]))

    def rows(self) -> Iterator[tuple[tuple[str, str, int], float, float, str, bool]]:
        """Return key, share, Monte Carlo error, bound in words, and whether it is broken."""
        for key, hits in self.hits.items():
            share = sum(hits) / len(hits)
            error = math.sqrt(max(share * (1 - share), 1 / len(hits)) / len(hits))
            sign, bound = self.bounds.get(key, ("", 0.0))
            broken = (sign == "<=" and share > bound + 3 * error) or (
                sign == ">=" and share < bound - 3 * error
            )
            yield key, share, error, f"{sign} {bound:.1%}" if sign else "", broken


def one_study(scenario: Scenario, samples: int, generator: Generator, shares: Shares) -> None:
    """Simulate a study and note every claim that its verdict makes."""
    truth = scenario.draw(generator)
    success, infra = simulate(truth, samples, generator)
    score = contrasts(Measure.SUCCESS, success)
    errors = contrasts(Measure.INFRA_ERROR, infra)

    def note(claim: str, hit: bool, bound: str = "") -> None:
        shares.add(claim, scenario.name, samples, hit, bound)

    three = score[0]
    shares.t_tests[scenario.name, samples].append(1.0 if three.p_t is None else three.p_t)
    is_null = scenario in NULLS
    if is_null:
        note("success differs, p < .05, one contrast", three.p_value < 0.05, "<=0.05")
        note("success differs, Holm, any set", any(c.detectable for c in score), "<=0.05")
        slope = trend.trend(success.events, success.trials)
        width = spread.spread(success.events, success.trials)
        note("trend of success, p < .05", slope.slope.p_value < 0.05, "<=0.05")
        note("spread of success, p < .05", width.p_value < 0.05, "<=0.05")
    if scenario is NO_EFFECT:
        found = movements(dict.fromkeys(Measure, success), NAMES, 0, (1, 2), 0.05)
        note("a task moved beyond chance (BH)", any(m.significant for m in found), "<=0.05")
        note("results drifted", _drifted(success, generator), "<=0.05")
    if scenario is SAME_INFRA:
        note("infra errors fell or rose, Holm", any(c.detectable for c in errors), "<=0.05")
    else:
        note("power: fewer infra errors at 3x, Holm", errors[0].detectable)
    if scenario in (AT_MARGIN, FOUR, SIX):
        note("equivalent within 3 points", three.equivalent, "<=0.05")
        note("power: success differs, p < .05", three.p_value < 0.05)
        note("power: the paired t test at 5 %", three.p_t is not None and three.p_t < 0.05)
    if scenario is NO_EFFECT:
        note("power: equivalent within 3 points", three.equivalent)
    _recommended(scenario, score, errors, infra, note)
    _covered(truth, score, errors, success, infra, note)


def _recommended(
    scenario: Scenario,
    score: list[MeasureContrast],
    errors: list[MeasureContrast],
    infra: Events,
    note: Callable[..., None],
) -> None:
    steps = [
        Step(
            id=name,
            candidate=name != "uncapped",
            infra_rate=float((infra.events[:, index] / infra.trials[:, index]).mean()),
            infra_difference=errors[index - 1].difference or 0.0,
            infra_p_holm=errors[index - 1].p_holm or 0.0,
            success_difference=score[index - 1].difference or 0.0,
            success_p=score[index - 1].p_value or 0.0,
            equivalent=score[index - 1].equivalent,
        )
        for index, name in enumerate(SETS)
        if index
    ]
    choice = choose(steps, alpha=0.05, margin=MARGIN, tie=0.005)
    recommended = choice.status is RecommendationStatus.RECOMMENDED
    harmful = scenario in (AT_MARGIN, FOUR, SIX)
    if harmful or scenario is SAME_INFRA:
        note("recommended 3x, wrongly", recommended, "<=0.05")
    else:
        note("power: recommended 3x", recommended)
    note("provisional 3x", choice.status is RecommendationStatus.PROVISIONAL)


def _covered(
    truth: Truth,
    score: list[MeasureContrast],
    errors: list[MeasureContrast],
    success: Events,
    infra: Events,
    note: Callable[..., None],
) -> None:
    low, high = score[0].ci95
    note("95% interval of the success difference", low <= truth.lift[1] <= high, ">=0.94")
    low, high = errors[0].ci95
    change = truth.infra_mean[1] - truth.infra_mean[0]
    note("95% interval of the infra difference", low <= change <= high, ">=0.90")
    low, high = rate(*success.column(0)).ci95
    note("95% interval of the score at 1x", low <= 0.5 <= high, ">=0.94")
    low, high = rate(*infra.column(1)).ci95
    note("95% interval of the infra error rate at 3x", low <= truth.infra_mean[1] <= high, ">=0.90")


def _drifted(success: Events, generator: Generator) -> bool:
    samples = int(success.trials[0, 0])
    if samples < 2:
        return False
    # The outcomes of a cell in random order over its samples: a run in which time did nothing.
    ranks = generator.random((*success.events.shape, samples)).argsort(axis=2)
    results = (ranks < success.events[:, :, None]).mean(axis=1)
    task, sample = np.indices(results.shape)
    block_time = (sample * TASKS + generator.permutation(TASKS)[task]).astype(float)
    found = drift.drift(task.reshape(-1), block_time.reshape(-1), results.reshape(-1))
    return found is not None and found.p_value < 0.05


def one_growing_study(scenario: Scenario, generator: Generator, shares: Shares) -> None:
    """Simulate a study that stops when it is decided, and one that is looked at six times."""
    truth = scenario.draw(generator)
    parts = [simulate(truth, 2, generator)[0] for _ in range(6)]
    totals = [
        Events(
            np.sum([part.events for part in parts[: step + 1]], axis=0),
            np.sum([part.trials for part in parts[: step + 1]], axis=0),
        )
        for step in range(6)
    ]
    used, decided = 12, []
    for look in LOOKS:
        settings = replace(SETTINGS, look=look)
        decided = contrasts(Measure.SUCCESS, totals[look.samples // 2 - 1], settings)
        used = look.samples
        if all(item.status is not Status.INCONCLUSIVE for item in decided):
            break
    different = any(item.status in (Status.HIGHER, Status.LOWER) for item in decided)
    naive = any(
        measure_contrast(Measure.SUCCESS, total.column(0), total.column(1), SETTINGS).p_value < 0.05
        for total in totals
    )
    fixed = contrasts(Measure.SUCCESS, totals[-1])

    def note(claim: str, hit: bool, bound: str = "") -> None:
        shares.add(claim, scenario.name, 12, hit, bound)

    if scenario in NULLS:
        note("stopped when decided: success differs, Holm", different, "<=0.05")
        note("looked at six times without a plan: success differs", naive)
    else:
        equivalent = decided[0].status is Status.EQUIVALENT
        note("stopped when decided: equivalent within 3 points", equivalent, "<=0.05")
        note("power: stopped when decided", different)
        note("power: all 12 samples", any(item.detectable for item in fixed))
    note("stopped before all 12 samples", used < 12)


def compare_power(shares: Shares) -> list[str]:
    """Add the t test at the exact test's true level; return where it has over 2 points more power.

    The level is taken from the studies without effect: the share that the exact test rejects.
    """
    found = []
    for (claim, scenario, samples), hits in list(shares.hits.items()):
        if claim != "power: success differs, p < .05":
            continue
        key = ("success differs, p < .05, one contrast", NO_EFFECT.name, samples)
        level = float(np.mean(shares.hits[key]))
        threshold = np.quantile(shares.t_tests[NO_EFFECT.name, samples], level)
        matched = np.array(shares.t_tests[scenario, samples]) < threshold
        for hit in matched:
            shares.add("power: the paired t test at the exact test's level", scenario, samples, hit)
        lost = matched.astype(float) - np.array(hits, dtype=float)
        gap, error = lost.mean(), lost.std() / math.sqrt(len(lost))
        if gap > 0.02 + 3 * error:
            found.append(f"power at {scenario}, K = {samples}: {gap:.1%} below the t test")
    return found


@dataclass(frozen=True)
class Row:
    """One claim in one population, for each number of samples: share and Monte Carlo error."""

    claim: str
    scenario: str
    bound: str
    shares: dict[int, tuple[float, float]]
    broken: tuple[int, ...] = ()


def table_rows(shares: Shares) -> list[Row]:
    """Gather the numbers of samples of each claim and population."""
    gathered: dict[tuple[str, str, str], dict[int, tuple[float, float]]] = defaultdict(dict)
    broken = defaultdict(list)
    for (claim, scenario, samples), share, error, bound, bad in shares.rows():
        key = (claim, scenario, bound)
        gathered[key][samples] = (share, error)
        if bad:
            broken[key].append(samples)
    return [Row(*key, values, tuple(broken[key])) for key, values in sorted(gathered.items())]


def markdown(rows: list[Row], command: str, studies: int, seconds: float) -> str:
    """Return the table as a page."""
    numbers = sorted({samples for row in rows for samples in row.shares})
    lines = [
        "# How often the verdict is wrong",
        "",
        "Simulated studies with known truth, made by",
        "",
        f"    {command}",
        "",
        f"{studies} studies per figure, {seconds:.0f} s on one core. A figure is the per cent of",
        "studies in which the claim was made (for intervals: in which they held the truth), in the",
        "column of their samples per task and set (K). `+-` is the largest Monte Carlo standard",
        "error of the row, in points. Wrong claims and intervals have a bound; power and",
        "descriptions have none. `benchmarks/validity.py` describes the populations.",
        "",
        "The exact test's p-values come in steps, so that it keeps less than its level, most with",
        "one sample; a t test spends all of it. The fair measure of power is therefore the t test",
        "at the level that the exact test really keeps.",
        "",
        "| claim | truth | bound | " + " | ".join(f"K={k}" for k in numbers) + " | +- |",
        "|---|---|---|" + "---:|" * (len(numbers) + 1),
    ]
    for row in rows:
        error = max(value for _, value in row.shares.values())
        cells = [row.claim, row.scenario, row.bound, *(_cell(row, k) for k in numbers)]
        lines.append(f"| {' | '.join(cells)} | {100 * error:.1f} |")
    return "\n".join(lines) + "\n"


def _cell(row: Row, samples: int) -> str:
    if samples not in row.shares:
        return ""
    text = f"{100 * row.shares[samples][0]:.1f}"
    return f"**{text}**" if samples in row.broken else text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", help="all K and scenarios, 2,000 studies")
    parser.add_argument("--studies", type=int, help="studies per row")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, help="write the table to this file")
    options = parser.parse_args()
    studies = options.studies or (2000 if options.long else 250)
    samples = SAMPLES if options.long else (5,)
    spread.RESAMPLES = drift.RESAMPLES = RESAMPLES
    generator = np.random.default_rng(options.seed)
    shares, begin = Shares(), time.perf_counter()
    for scenario in SCENARIOS:
        for number in samples:
            for _ in range(studies):
                one_study(scenario, number, generator, shares)
        print(f"{scenario.name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    for scenario in (NO_EFFECT, MIXED, AT_MARGIN, SIX):
        for _ in range(studies):
            one_growing_study(scenario, generator, shares)
    command = " ".join(["python", *sys.argv])
    weaker = compare_power(shares)
    page = markdown(table_rows(shares), command, studies, time.perf_counter() - begin)
    print(page)
    if options.write is not None:
        options.write.write_text(page, encoding="utf-8")
    broken = [f"{key}: {share:.1%}" for key, share, _, _, bad in shares.rows() if bad]
    broken += weaker
    for line in broken:
        print(f"broken: {line}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
