"""Compare a study of the main job with the table in example_tasks/README.md.

python tests/check_main_job.py STUDY   prints each difference; exit code 1 if there is one
"""

import json
import re
import sys
from pathlib import Path

TABLE = Path(__file__).parents[1] / "example_tasks" / "README.md"
SETS = ("1x", "3x", "uncapped")

Outcomes = dict[tuple[str, str], str]


def expected_outcomes(markdown: str) -> Outcomes:
    """Read the table: its last three columns are the outcomes in each parameter set."""
    found: Outcomes = {}
    for line in markdown.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        name = re.fullmatch(r"`(.+)`", cells[0])
        if name and len(cells) == 2 + len(SETS):
            found |= {
                (name[1], parameter_set): cells[2 + i] for i, parameter_set in enumerate(SETS)
            }
    return found


def recorded_outcomes(journal: str) -> Outcomes:
    """Read a journal; tests of the example suite are named as in the table."""
    records = [json.loads(line) for line in journal.splitlines()]
    return {
        (record["task"].removeprefix("example_tasks/"), record["parameter_set"]): record["outcome"]
        for record in records
    }


def differences(expected: Outcomes, recorded: Outcomes) -> list[str]:
    """Return one line for each trial that is missing, unexpected or ended otherwise."""
    return [
        f"{task} {parameter_set}: expected {expected.get(key)}, recorded {recorded.get(key)}"
        for key in sorted(expected.keys() | recorded.keys())
        if expected.get(key) != recorded.get(key)
        for task, parameter_set in [key]
    ]


def main(study: Path) -> int:
    """Print the differences of one study and return the exit code."""
    expected = expected_outcomes(TABLE.read_text())
    found = differences(expected, recorded_outcomes((study / "trials.jsonl").read_text()))
    print("\n".join(found) or f"all {len(expected)} outcomes as in {TABLE.name}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
