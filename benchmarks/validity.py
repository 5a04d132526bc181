"""How often the verdict is wrong: simulated studies with known truth.

    python benchmarks/validity.py                  # short, under a minute: what CI runs
    python benchmarks/validity.py --long           # the table of docs/validity.md
    python benchmarks/validity.py --long --write docs/validity.md
    python benchmarks/validity.py --only 'beyond it' --studies 400

Each study draws its tasks anew (difficulty Beta(0.4, 0.4)) and runs 1x, 3x and uncapped. A trial is
killed with a chance that depends on task and set; a share of the killed ones would have passed.
What is left of a success after that, and what a set eases, is the population's. Every figure is the
share of studies, beside its Monte Carlo standard error. Exits with 1 if a figure breaks its bound
further than chance does in one of a thousand (binomial).
"""

import argparse
import math
import shlex
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from pytest_infranoise.analysis import AnalysisSettings, Measure, MeasureContrast, Status
from pytest_infranoise.analysis.contrasts import Events, in_sequence, measure_contrast
from pytest_infranoise.analysis.movement import movements
from pytest_infranoise.analysis.recommendation import step_of
from pytest_infranoise.statistics import drift, spread, trend
from pytest_infranoise.statistics.intervals import rate
from pytest_infranoise.statistics.recommend import Choice, choose
from pytest_infranoise.statistics.sequential import planned_looks

SETS = ("1x", "3x", "uncapped")
PUBLISHED = (0.058, 0.021, 0.005)
SAMPLES = (1, 2, 3, 5, 10, 24)
MARGIN = 0.03
RESAMPLES = 199
BEYOND_CHANCE = 0.001
SHORT_STUDIES = 150
SETTINGS = AnalysisSettings(margin=MARGIN)
LOOKS = planned_looks(12)
TESTED = (Measure.SUCCESS, Measure.INFRA_ERROR, Measure.AGENT_FAILURE)

Floats = NDArray[np.float64]
Generator = np.random.Generator


@dataclass(frozen=True)
class Truth:
    """Chances per task and set, shape (tasks, sets)."""

    success: Floats
    infra: Floats

    def difference(self, measure: Measure, other: int) -> float:
        """The true difference of a set from 1x, on these very tasks."""
        rates = {
            Measure.SUCCESS: self.success,
            Measure.INFRA_ERROR: self.infra,
            Measure.AGENT_FAILURE: 1 - self.success - self.infra,
        }[measure]
        return float((rates[:, other] - rates[:, 0]).mean())


@dataclass(frozen=True)
class Population:
    """Studies of one kind.

    `infra` are the mean rates of killed trials per set, spread over `killed_tasks` tasks (None: a
    quarter of them); `rescued` is the share of them that would have passed. `ease` is the
    true gain beyond repair, in `eased_share` of the tasks; `moves` spreads effects
    of both signs. With `uneven` cells have 1 to 12 samples and some are missing.
    """

    name: str
    infra: tuple[float, float, float] = (0.0, 0.0, 0.0)
    rescued: float = 0.5
    killed_tasks: int | None = None
    ease: tuple[float, float, float] = (0.0, 0.0, 0.0)
    eased_share: float = 1.0
    moves: str = "none"
    tasks: int = 89
    uneven: bool = False

    def draw(self, generator: Generator) -> Truth:
        """Draw the tasks of one study."""
        n = self.tasks
        p = generator.beta(0.4, 0.4, n)
        killed = generator.permutation(n) < (self.killed_tasks or max(1, round(n / 4)))
        infra = np.outer(killed * (n / killed.sum()), self.infra).clip(0, 1)
        success = self._after_kills(p, infra)
        success = success + self._eased(success, infra, generator)
        if self.moves != "none":
            room = np.minimum(success, 1 - success - infra) * np.array([0.0, 1.0, 1.0])
            success = success + self._moves(room[:, 1], generator)[:, None] * room
        return Truth(success, infra)

    def _after_kills(self, p: Floats, infra: Floats) -> Floats:
        """Let the share of the killed that would have passed fail, and the rest of it pass.

        The others would have failed; where more are killed than would, passes make up for them.
        """
        lost = self.rescued * infra
        return np.clip(p[:, None] - lost, 0.0, 1 - infra)

    def _eased(self, success: Floats, infra: Floats, generator: Generator) -> Floats:
        """Return what makes the agent's failures fewer than at 1x by exactly `ease`.

        Rescued trials that fail are agent failures, so repair alone adds some; easing has to
        undo these too.
        """
        if not any(self.ease):
            return np.zeros_like(success)
        chosen = generator.permutation(self.tasks) < max(1, round(self.eased_share * self.tasks))
        failures = 1 - success - infra
        needed = np.array(self.ease) + failures.mean(axis=0) - failures[:, 0].mean()
        room = failures * chosen[:, None]
        return room * (needed / room.mean(axis=0)).clip(0, 1)

    def _moves(self, room: Floats, generator: Generator) -> Floats:
        """Return effects of both signs whose sum over these tasks is zero."""
        up = generator.random(self.tasks) < (0.5 if self.moves == "symmetric" else 0.2)
        gain, loss = room[up].sum(), room[~up].sum()
        if min(gain, loss) == 0:
            return np.zeros(self.tasks)
        size = 0.5 * min(gain, loss)
        return np.where(up, size / gain, -size / loss)


EASED = (0.0, MARGIN, MARGIN)
POPULATIONS = (
    Population("no effect"),
    Population("no effect, equal infra errors", (0.058,) * 3),
    Population("effects that cancel", moves="symmetric"),
    Population("effects that cancel, skewed", moves="skewed"),
    Population("published infra errors, half of the rescued pass", PUBLISHED),
    Population("published infra errors, all rescued pass", PUBLISHED, rescued=1.0),
    Population("published infra errors, none of the rescued pass", PUBLISHED, rescued=0.0),
    Population("always killed: 2 tasks", (2 / 89, 0, 0), killed_tasks=2),
    Population("always killed: 7 tasks", (7 / 89, 0, 0), killed_tasks=7),
    Population("killed in 9 tasks", (0.058, 0, 0), killed_tasks=9),
    Population("repair, and +3 points beyond it", PUBLISHED, ease=EASED),
    Population("+3 points (the margin)", ease=EASED),
    Population("+4 points in a tenth of the tasks", ease=(0.0, 0.04, 0.04), eased_share=0.1),
    Population("+6 points", ease=(0.0, 0.06, 0.06)),
    Population("unequal samples, missing cells, no effect", uneven=True),
    Population("unequal samples, missing cells, +3 points", ease=EASED, uneven=True),
    Population("12 tasks, no effect", tasks=12),
    Population("12 tasks, equal infra errors", (0.058,) * 3, tasks=12),
    Population("12 tasks, repair, and +3 points beyond it", PUBLISHED, ease=EASED, tasks=12),
    Population("227 tasks, published infra errors", PUBLISHED, tasks=227),
    Population("227 tasks, repair, and +3 points beyond it", PUBLISHED, ease=EASED, tasks=227),
)
GROWING = tuple(p for p in POPULATIONS if p.name in ("no effect", "+3 points (the margin)"))


def simulate(
    truth: Truth, samples: int, generator: Generator, *, uneven: bool = False
) -> dict[Measure, Events]:
    """Return what one study counts."""
    trials = np.full(truth.success.shape, samples)
    if uneven:
        trials = generator.integers(1, 13, trials.shape) * (generator.random(trials.shape) > 0.05)
    passed = generator.binomial(trials, truth.success)
    conditional = np.clip(truth.infra / np.maximum(1e-12, 1 - truth.success), 0, 1)
    infra = generator.binomial(trials - passed, conditional)
    return {
        Measure.SUCCESS: Events(passed, trials),
        Measure.INFRA_ERROR: Events(infra, trials),
        Measure.AGENT_FAILURE: Events(trials - passed - infra, trials),
    }


def contrasts(
    measure: Measure, events: Events, settings: AnalysisSettings = SETTINGS
) -> list[MeasureContrast]:
    """Return 3x and uncapped against 1x, in sequence from the top."""
    family = (
        measure_contrast(measure, events.column(0), events.column(other), settings)
        for other in (1, 2)
    )
    return in_sequence(family, settings)


class Shares:
    """Counts how often a claim was made; bounds say how often it may be."""

    def __init__(self) -> None:
        self.hits: dict[tuple[str, str, int], list[bool]] = defaultdict(list)
        self.bounds: dict[tuple[str, str, int], tuple[str, float]] = {}

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
            broken = bool(sign) and _is_broken(sum(hits), len(hits), sign, bound)
            yield key, share, error, f"{sign} {bound:.1%}" if sign else "", broken


def _is_broken(hits: int, studies: int, sign: str, bound: float) -> bool:
    """Return whether so many hits are beyond chance if the bound held just so."""
    allowed = binom(studies, bound)
    chance = allowed.sf(hits - 1) if sign == "<=" else allowed.cdf(hits)
    return bool(chance < BEYOND_CHANCE)


Note = Callable[..., None]


def one_study(population: Population, samples: int, generator: Generator, shares: Shares) -> None:
    """Simulate a study and note every claim that its verdict makes."""
    truth = population.draw(generator)
    counted = simulate(truth, samples, generator, uneven=population.uneven)
    found = {measure: contrasts(measure, counted[measure]) for measure in TESTED}

    def note(claim: str, hit: bool, bound: str = "") -> None:
        shares.add(claim, population.name, samples, hit, bound)

    # What a study can claim is about the tasks that ran in both sets.
    ran = (counted[Measure.SUCCESS].trials > 0).all(axis=1)
    truth = Truth(truth.success[ran], truth.infra[ran]) if population.uneven else truth
    _differences(truth, found, note)
    _verdicts(truth, decided(found, counted), note)
    _covered(truth, found, counted, note)
    if population.name == "no effect":
        _along_the_ladder(counted[Measure.SUCCESS], generator, note)


def decided(
    found: Mapping[Measure, list[MeasureContrast]], counted: Mapping[Measure, Events]
) -> Choice:
    """Apply the rule of the verdict."""
    infra = counted[Measure.INFRA_ERROR]
    steps = []
    for index, name in enumerate(SETS[1:]):
        ran = infra.trials[:, index + 1] > 0
        rates = infra.events[ran, index + 1] / infra.trials[ran, index + 1]
        steps.append(
            step_of(
                name,
                {measure: family[index] for measure, family in found.items()},
                infra_rate=float(rates.mean()),
                candidate=name != "uncapped",
                margin=MARGIN,
            )
        )
    return choose(steps, ceiling="3x", tie=0.005)


def _differences(truth: Truth, found: Mapping[Measure, list[MeasureContrast]], note: Note) -> None:
    for measure in (Measure.SUCCESS, Measure.INFRA_ERROR):
        words = "success differs" if measure is Measure.SUCCESS else "infra errors differ"
        true = [truth.difference(measure, other) for other in (1, 2)]
        wrong = any(
            item.detectable and (item.difference or 0.0) * difference <= 1e-12
            for item, difference in zip(found[measure], true, strict=True)
        )
        note(f"wrong: {words}", wrong, "<=0.05")
        if abs(true[0]) > 1e-9:
            note(f"power: {words} at 3x", found[measure][0].detectable)


def _verdicts(truth: Truth, choice: Choice, note: Note) -> None:
    lift = truth.difference(Measure.SUCCESS, 1)
    gains = [-truth.difference(Measure.AGENT_FAILURE, other) for other in (1, 2)]
    fewer = truth.difference(Measure.INFRA_ERROR, 1) < -1e-12
    edge = MARGIN - 1e-9
    is_recommended = str(choice.status) == "recommended"
    bounded = gains[0] < edge and fewer
    for claim, made, is_true in (
        ("neutral 3x", "3x" in choice.neutral, abs(lift) < edge),
        ("repairs 3x", "3x" in choice.repairs, bounded),
        ("recommended 3x", is_recommended, bounded and abs(lift) < edge),
        ("eased", bool(choice.eased), max(gains) > 1e-12),
    ):
        if is_true:
            note(f"power: {claim}", made)
        else:
            note(f"wrong: {claim}", made, "<=0.05")
    note("provisional 3x", str(choice.status) == "provisional")


def _covered(
    truth: Truth,
    found: Mapping[Measure, list[MeasureContrast]],
    counted: Mapping[Measure, Events],
    note: Note,
) -> None:
    for measure, words in (
        (Measure.SUCCESS, "success difference"),
        (Measure.INFRA_ERROR, "infra difference"),
        (Measure.AGENT_FAILURE, "gain beyond repair"),
    ):
        low, high = found[measure][0].ci95 or (-1.0, 1.0)
        note(f"95% interval of the {words}", low <= truth.difference(measure, 1) <= high, ">=0.94")
    score = rate(*counted[Measure.SUCCESS].column(0))
    if score is not None and not truth.infra.any():
        low, high = score.ci95
        note("95% interval of the score (tasks like these)", low <= 0.5 <= high)


def _along_the_ladder(success: Events, generator: Generator, note: Note) -> None:
    slope = trend.trend(success.events, success.trials)
    width = spread.spread(success.events, success.trials)
    assert slope is not None
    assert width is not None
    note("wrong: trend of success", slope.slope.p_value < 0.05, "<=0.05")
    note("wrong: spread of success", width.p_value < 0.05, "<=0.05")
    names = tuple(f"t{index}" for index in range(len(success.trials)))
    moved = movements(dict.fromkeys(Measure, success), names, 0, (1,), 0.05)
    note("wrong: a task moved beyond chance", any(m.significant for m in moved), "<=0.05")
    note("wrong: results drifted", _drifted(success, generator), "<=0.05")


def _drifted(success: Events, generator: Generator) -> bool:
    samples, tasks = int(success.trials[0, 0]), len(success.trials)
    if samples < 2:
        return False
    # The outcomes of a cell in random order over its samples: a run in which time did nothing.
    ranks = generator.random((*success.events.shape, samples)).argsort(axis=2)
    results = (ranks < success.events[:, :, None]).mean(axis=1)
    task, sample = np.indices(results.shape)
    block_time = (sample * tasks + generator.permutation(tasks)[task]).astype(float)
    found = drift.drift(task.reshape(-1), block_time.reshape(-1), results.reshape(-1))
    return found is not None and found.p_value < 0.05


def one_growing_study(population: Population, generator: Generator, shares: Shares) -> None:
    """Simulate a study that stops when it is decided, and one that is looked at six times."""
    truth = population.draw(generator)
    parts = [simulate(truth, 2, generator)[Measure.SUCCESS] for _ in range(6)]
    totals = [
        Events(
            np.sum([part.events for part in parts[: step + 1]], axis=0),
            np.sum([part.trials for part in parts[: step + 1]], axis=0),
        )
        for step in range(6)
    ]
    used, found = 12, contrasts(Measure.SUCCESS, totals[-1])
    for look in LOOKS:
        settings = replace(SETTINGS, look=look)
        found = contrasts(Measure.SUCCESS, totals[look.samples // 2 - 1], settings)
        used = look.samples
        if all(item.status is not Status.INCONCLUSIVE for item in found):
            break
    different = any(item.status in (Status.HIGHER, Status.LOWER) for item in found)
    naive = any(
        (measure_contrast(Measure.SUCCESS, t.column(0), t.column(1), SETTINGS).p_value or 0) < 0.05
        for t in totals
    )

    def note(claim: str, hit: bool, bound: str = "") -> None:
        shares.add(claim, population.name, 12, hit, bound)

    if any(population.ease):
        equivalent = found[0].status is Status.EQUIVALENT
        note("wrong: stopped when decided, equivalent", equivalent, "<=0.05")
        note("power: stopped when decided, success differs", different)
    else:
        note("wrong: stopped when decided, success differs", different, "<=0.05")
        note("looked at six times without a plan: success differs", naive)
    note("stopped before all 12 samples", used < 12)


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
        f"{studies} studies per figure (without `--long` a tenth of them with unequal samples),",
        f"{seconds:.0f} s on one core. A figure is the per cent of",
        "studies in which the claim was made (for intervals: in which they held the truth), in the",
        "column of their samples per task and set (K). `+-` is the largest Monte Carlo standard",
        "error of the row, in points. Wrong claims and intervals have a bound; power and",
        "descriptions have none. `benchmarks/validity.py` describes the populations.",
        "",
        "The tasks are drawn anew for each study, and the claims are about these tasks: the truth",
        "is theirs. With unequal samples K is only the column.",
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


def chosen(populations: Iterable[Population], part: str) -> list[Population]:
    """Return the populations whose name has this part."""
    return [population for population in populations if part in population.name]


def seeded(seed: int, population: Population) -> Generator:
    """Return a generator of the population's own, so that its figures are the same alone."""
    return np.random.default_rng([seed, zlib.crc32(population.name.encode())])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", help="all K, 1,000 studies")
    parser.add_argument("--studies", type=int, help="studies per row")
    parser.add_argument("--only", default="", metavar="TEXT", help="populations named so")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, help="write the table to this file")
    options = parser.parse_args()
    studies = options.studies or (1000 if options.long else SHORT_STUDIES)
    samples = SAMPLES if options.long else (5,)
    spread.RESAMPLES = drift.RESAMPLES = RESAMPLES
    shares, begin = Shares(), time.perf_counter()
    for population in chosen(POPULATIONS, options.only):
        generator = seeded(options.seed, population)
        for number in samples:
            # Unequal samples are drawn, not transformed: slow, so there are fewer of them.
            is_slow = population.uneven and not options.long
            for _ in range(max(1, studies // 10) if is_slow else studies):
                one_study(population, number, generator, shares)
        print(f"{population.name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    for population in chosen(GROWING, options.only):
        generator = seeded(options.seed, population)
        for _ in range(studies):
            one_growing_study(population, generator, shares)
    command = shlex.join(["python", *sys.argv])
    page = markdown(table_rows(shares), command, studies, time.perf_counter() - begin)
    print(page)
    if options.write is not None:
        options.write.write_text(page, encoding="utf-8")
    broken = [f"{key}: {share:.1%}" for key, share, _, _, bad in shares.rows() if bad]
    for line in broken:
        print(f"broken: {line}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
