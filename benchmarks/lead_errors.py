"""How often `infranoise compare` says the right one of its three sentences.

python benchmarks/lead_errors.py [STUDIES]

Two entries with a planted lead run on a study with a planted infrastructure band. The band that the
lead is held against is estimated by each study itself, as `compare` does it. The sentence is right
if it says what is true of the planted lead: nothing (no lead), sampling only (a lead no larger than
the band), or both (a lead larger than the band).
"""

import sys
from collections import Counter

import numpy as np

from pytest_infranoise.analysis.entries import Infrastructure, Lead, compare_entries
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.model.table import OutcomeTable

TASKS, SAMPLES, SEED = 89, 5, 20260101
CASES = (  # planted lead, planted band, in points
    (0, 0),
    (0, 6),
    (5, 6),
    (5, 0),
    (10, 2),
    (10, 6),
    (20, 6),
)
WORDS = {
    Lead.WITHIN_SAMPLING: "neither",
    Lead.BEYOND_SAMPLING: "sampling only",
    Lead.BEYOND_BOTH: "both",
}


def study(chance: np.random.Generator, base: np.ndarray, lead: float, band: float) -> OutcomeTable:
    """Make a study of two sets; every task passes more often by lead, and at 3x by band."""
    table = OutcomeTable([f"t{number}" for number in range(TASKS)], ["1x", "3x"])
    for index, rate in enumerate((base + lead, base + lead + band)):
        passed = chance.random((SAMPLES, TASKS)) < rate
        for sample, task in np.ndindex(passed.shape):
            outcome = Outcome.PASSED if passed[sample, task] else Outcome.FAILED
            table.add(int(task), index, outcome, sample=int(sample) + 1)
    return table


def band_of(table: OutcomeTable) -> Infrastructure:
    """Return the study's own band: success at 3x minus success at 1x, with its half-width."""
    (found,) = compare_entries(table, table, [("1x", "3x")])
    return Infrastructure(found.contrast.difference, found.half_width or 0.0)


def says(chance: np.random.Generator, lead: float, band: float) -> str:
    """Return the sentence on one pair of studies."""
    base = chance.uniform(0.15, 0.6, TASKS)
    a, b = study(chance, base, 0, band), study(chance, base, lead, band)
    band_held = max(band_of(a), band_of(b), key=lambda item: item.reach or 0.0)
    (found,) = compare_entries(a, b, [("1x", "1x")], infrastructure=band_held)
    return WORDS[found.lead]


def main() -> None:
    """Print one row per case."""
    studies = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    print(f"{TASKS} tasks x {SAMPLES} samples, {studies} pairs of studies a row, seed {SEED}")
    print("| lead | band | neither | sampling only | both |\n|---:|---:|---:|---:|---:|")
    for number, (lead, band) in enumerate(CASES):
        chance = np.random.default_rng((SEED, number))
        said = Counter(says(chance, lead / 100, band / 100) for _ in range(studies))
        shares = [f"{100 * said[word] / studies:.1f}%" for word in WORDS.values()]
        print(f"| {lead} | {band} | " + " | ".join(shares) + " |", flush=True)


if __name__ == "__main__":
    main()
