"""Do the parameter sets of a block stay together in time under xdist?

Runs a sweep of trivial local tasks (by default 89 tasks x 6 sets x 10 samples under -n 8) and
reports, from the journal's start times, how far apart the trials of a block started, counted in
trials. The floor that matters is zero blocks further apart than one round (tasks x sets trials).

    python benchmarks/block_balance.py [--tasks 89] [--samples 10] [--workers 8]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

SETS = "1,1.5,2,3,5,uncapped"


def make_tasks(folder: Path, number: int) -> None:
    """Write tasks that do nothing and pass."""
    for index in range(number):
        task = folder / f"task-{index:03d}"
        for inner in ("environment", "tests"):
            (task / inner).mkdir(parents=True)
        (task / "task.toml").write_text(
            'schema_version = "1.4"\n[environment]\nmemory = "64M"\n[agent]\ntimeout_sec = 60\n'
        )
        (task / "instruction.md").write_text("Do nothing.\n")
        (task / "environment" / "Dockerfile").write_text("FROM scratch\n")
        test = task / "tests" / "test.sh"
        test.write_text("#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n")
        test.chmod(0o755)


def run_sweep(folder: Path, samples: int, workers: int) -> float:
    """Run the sweep; return its seconds."""
    began = time.monotonic()
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "bench", "-q", "-p", "no:cacheprovider"),
            *(f"--infra-multipliers={SETS}", f"--infra-samples={samples}"),
            *("--infra-agent=nop", "--infra-backend=local", "--infra-study=study"),
            *("--infra-exit=study", f"-n{workers}"),
        ],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.monotonic() - began


def block_spans(journal: Path) -> list[int]:
    """Return, per block, how many trials started between its first and its last."""
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    records.sort(key=lambda record: record["started_at"])
    ranks: dict[int, list[int]] = defaultdict(list)
    for rank, record in enumerate(records):
        ranks[record["block"]].append(rank)
    return [max(own) - min(own) for own in ranks.values()]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=89)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--workers", type=int, default=8)
    options = parser.parse_args()
    sets = SETS.count(",") + 1
    with tempfile.TemporaryDirectory(prefix="infranoise-benchmark-") as name:
        folder = Path(name)
        make_tasks(folder / "bench", options.tasks)
        seconds = run_sweep(folder, options.samples, options.workers)
        spans = block_spans(folder / "study" / "trials.jsonl")
    trials = options.tasks * sets * options.samples
    round_length = options.tasks * sets
    apart = sum(span > round_length for span in spans)
    print(f"{trials} trials in {seconds:.0f} s, {1000 * seconds / trials:.0f} ms per trial")
    print(f"blocks: {len(spans)}; further apart than one round ({round_length} trials): {apart}")
    print(f"largest span {max(spans)} trials, mean {sum(spans) / len(spans):.1f}, least {sets - 1}")


if __name__ == "__main__":
    main()
