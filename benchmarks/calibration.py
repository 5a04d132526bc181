"""How often the thresholds that `infranoise calibrate` proposes hold.

python benchmarks/calibration.py [STUDIES]

Trials with a planted need run under the thresholds of a design; kills censor them, and page cache
adds up to half of the need to the peak of those that live. A proposal is wrong if new trials exceed
it more often than its bound says. `shown` has a bound of at most 10 %, with 95 % confidence.
"""

import math
import sys
from collections.abc import Callable

import numpy as np

from pytest_infranoise.analysis.calibration import SIZES
from pytest_infranoise.statistics.thresholds import Need, Needs, NeedStatus, covering_threshold
from pytest_infranoise.units import MIB

SEED, RATE, CONFIDENCE = 20261130, 0.10, 0.95
DESIGNS = (  # thresholds in MiB, samples in each
    ((64, 192, math.inf), 5),
    ((64, 192, math.inf), 12),
    ((64, 192, math.inf), 36),
    ((math.inf,), 29),
    ((math.inf,), 60),
)
Draw = Callable[[np.random.Generator, int], np.ndarray]
NEEDS: dict[str, Draw] = {
    "log-normal": lambda chance, n: 100 * np.exp(chance.normal(0, 0.6, n)),
    "two strategies": lambda chance, n: np.where(
        chance.random(n) < 0.12, chance.uniform(300, 500, n), chance.uniform(20, 60, n)
    ),
    "11% need 8 times as much": lambda chance, n: np.where(chance.random(n) < 0.11, 400.0, 50.0),
    "heavy tail": lambda chance, n: 60 * (1 + chance.pareto(1.5, n)),
}


def propose(chance: np.random.Generator, draw: Draw, sets: tuple[float, ...], samples: int) -> Need:
    """Run one study and return what it proposes."""
    limits = np.repeat(np.array(sets), samples)
    needs = draw(chance, len(limits))
    killed = needs > limits
    peaks = np.minimum(limits, needs * chance.uniform(1, 1.5, len(needs)))
    made = Needs(limits * MIB, np.where(killed, limits, peaks) * MIB, killed)
    return covering_threshold(made, SIZES, rate=RATE, confidence=CONFIDENCE)


def row(kind: str, sets: tuple[float, ...], samples: int, studies: int) -> list[str]:
    """Return the figures of one design."""
    chance = np.random.default_rng(SEED)
    true = NEEDS[kind](chance, 400_000)
    rates, expected, wrong, shown = [], [], 0, 0
    for _ in range(studies):
        need = propose(chance, NEEDS[kind], sets, samples)
        if need.threshold is None or need.evidence is None:
            continue
        rate = float((true > need.threshold / MIB).mean())
        rates.append(rate)
        expected.append(need.evidence.expected)
        wrong += rate > need.evidence.upper
        shown += need.status is NeedStatus.SHOWN
    names = ", ".join("uncapped" if math.isinf(limit) else f"{limit:g} MiB" for limit in sets)
    return [
        kind,
        f"{names} x {samples}",
        f"{100 * shown / studies:.0f}%",
        f"{100 * (len(rates) - shown) / studies:.0f}%",
        f"{100 * wrong / studies:.1f}%",
        f"{100 * float(np.mean(expected)):.1f}%",
        f"{100 * float(np.mean(rates)):.1f}%",
    ]


def main() -> None:
    studies = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    print("| need | design | shown | provisional | bound missed | expected kills | true kills |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for kind in NEEDS:
        for sets, samples in DESIGNS:
            print("| " + " | ".join(row(kind, sets, samples, studies)) + " |")


if __name__ == "__main__":
    main()
