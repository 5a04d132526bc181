"""Make docs/conformance.md from the results of the conformance suite: scenario x engine.

usage: make_table.py [RESULTS...] [--kills FILE...] [--output FILE] [--short]

RESULTS are files `<engine>.json` that the suite wrote (INFRANOISE_CONFORMANCE_RESULTS), or folders
of them; of two results of one scenario on one engine the last counts. `--kills` are results of
benchmarks/kills.py. `--short` prints the README's section alone.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "conformance")]

from catalogue import SCENARIOS  # noqa: E402
from kill_signs import kills_table, mistakes_table  # noqa: E402
from scenario import ENGINES, Right, Scenario  # noqa: E402

OUTPUT = TESTS.parent / "docs" / "conformance.md"

HEAD = """\
# Conformance: scenarios and their right records

<!-- Made by tests/conformance/make_table.py from the results of a run. Do not edit. -->

Each scenario is a small task with one right record: outcome, cause, kills per phase, exit code and
what ended the agent phase. The same scenarios are played as real trials on every engine
(`tests/conformance/`), and a record that differs in any of these points is wrong.

In the table, `right` is a record without a difference, `right (n)` that of a race played n times,
`wrong` one with a difference, and a number refers to the reason why the engine cannot play the
scenario. An empty cell was not played in this run.
"""

HOW = """\
## How it was made

```
INFRANOISE_REPEAT=20 INFRANOISE_CONFORMANCE=full INFRANOISE_CONFORMANCE_RESULTS=results \\
    pytest tests/conformance
INFRANOISE_REPEAT=20 VM_TIMEOUT_S=9000 tests/vm/conformance.sh results-v2 full
python benchmarks/kills.py --json results/kills.json
python tests/conformance/make_table.py results results-v2 --kills results/kills.json
```
"""


def load(places: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Read the results, by engine; later ones of a scenario replace earlier ones."""
    engines: dict[str, dict[str, Any]] = {}
    for place in places:
        for file in sorted(place.glob("*.json")) if place.is_dir() else [place]:
            content = json.loads(file.read_text(encoding="utf-8"))
            if content.get("engine") in ENGINES and "results" in content:
                known = engines.setdefault(content["engine"], {"facts": {}, "results": {}})
                known["facts"] = content["facts"]
                known["results"].update(content["results"])
    return {key: engines[key] for key in ENGINES if key in engines}


class Reasons:
    """Numbers for the reasons why an engine cannot play a scenario."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def number(self, text: str) -> int:
        """Return a reason's number."""
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text) + 1


def cell(result: dict[str, Any] | None, reasons: Reasons) -> str:
    """Return what the table says of one scenario on one engine."""
    if result is None:
        return ""
    if result["status"] == "n/a":
        return f"n/a {reasons.number(result['reason'])}"
    runs = f" ({result['runs']})" if result["runs"] > 1 else ""
    return f"{result['status']}{runs}" + (f": {result['wrong'][0]}" if result["wrong"] else "")


def words(right: Right) -> str:
    """Say a right record in a few words."""
    parts = [right.outcome if right.cause is None else f"{right.outcome}/{right.cause}"]
    if right.ending not in ("exit", "absent"):
        parts.append(f"ending {right.ending}")
    if isinstance(right.exit_code, int) and right.exit_code != 0:
        parts.append(f"exit code {right.exit_code}")
    kills = [f"{count_words(count)} in {phase}" for phase, count in right.kills.items()]
    return ", ".join(parts) + (f"; kills: {', '.join(kills)}" if kills else "")


def count_words(count: Any) -> str:
    """Say an expected count."""
    if count is None:
        return "unknown"
    if isinstance(count, tuple):
        return f"{count[0]} or more" if count[0] else "any number"
    return str(count)


def right_words(scenario: Scenario, engines: Iterable[str]) -> str:
    """Say the right records of a scenario: for all engines, then those of some."""
    common = scenario.right if isinstance(scenario.right, tuple) else (scenario.right,)
    said = dict.fromkeys(words(right) for right in common)
    others: dict[str, list[str]] = {}
    for key in engines:
        if scenario.reason_against(key) is None:
            for line in dict.fromkeys(words(right) for right in scenario.right_on(key)):
                if line not in said:
                    others.setdefault(line, []).append(f"`{key}`")
    return "<br>".join([*said, *(f"{line} ({', '.join(keys)})" for line, keys in others.items())])


def kernel(facts: dict[str, Any]) -> str:
    """Return the kernel's version without what its builder added."""
    found = re.match(r"\d+\.\d+", str(facts["kernel"]))
    return found[0] if found else "unknown"


def facts_table(engines: dict[str, dict[str, Any]]) -> list[str]:
    """Say what the engines were."""
    lines = ["| engine | | software | kernel | enforcement | as |", "|---|---|---|---|---|---|"]
    for key, content in engines.items():
        facts = content["facts"]
        lines.append(
            f"| `{key}` | {ENGINES[key]} | {facts['engine']} | {kernel(facts)} "
            f"| {facts['enforcement']} | {facts['as']} |"
        )
    return lines


def scenario_table(engines: dict[str, dict[str, Any]], reasons: Reasons) -> list[str]:
    """Scenario by engine."""
    lines = [
        f"| scenario | right record | {' | '.join(f'`{key}`' for key in engines)} |",
        f"|---|---|{'---|' * len(engines)}",
    ]
    for scenario in SCENARIOS:
        cells = [cell(known["results"].get(scenario.name), reasons) for known in engines.values()]
        lines.append(
            f"| {scenario.name} | {right_words(scenario, engines)} | {' | '.join(cells)} |"
        )
    return lines


def summary(engines: dict[str, dict[str, Any]]) -> list[str]:
    """How many scenarios were right on each engine: the README's section."""
    lines = [
        "| engine | kernel | right | wrong | not for this engine | runs |",
        "|---|---|---|---|---|---|",
    ]
    for key, content in engines.items():
        found = [content["results"].get(scenario.name) for scenario in SCENARIOS]
        counted = [
            sum(1 for result in found if result and result["status"] == status)
            for status in ("right", "wrong", "n/a")
        ]
        runs = sum(result.get("runs", 0) for result in found if result)
        lines.append(
            f"| {ENGINES[key]} | {kernel(content['facts'])} "
            f"| {' | '.join(map(str, counted))} | {runs} |"
        )
    return lines


def kills_section(files: Sequence[Path]) -> list[str]:
    """What the flag and the exit code alone would have said."""
    contents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return [
        "",
        "## What the engine's flag and the exit code alone would say",
        "",
        "On the same scenarios, over all trials whose kills are known for certain:",
        "",
        *kills_table(contents),
        "",
        "Trials that one of the two got wrong:",
        "",
        *mistakes_table(contents),
    ]


def page(engines: dict[str, dict[str, Any]], kills: Sequence[Path]) -> str:
    """Return the whole page."""
    reasons = Reasons()
    table = scenario_table(engines, reasons)
    parts = [
        HEAD,
        "## Engines\n",
        *facts_table(engines),
        "",
        *summary(engines),
        "\n## Scenarios\n",
        *table,
        "\nWhy an engine cannot play a scenario:\n",
        *(f"{number}. {text}" for number, text in enumerate(reasons.texts, 1)),
        "",
        *(kills_section(kills) if kills else []),
        "",
        HOW,
    ]
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--kills", nargs="*", type=Path, default=[])
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    engines = load(options.results)
    if options.short:
        print("\n".join(summary(engines)))
    else:
        options.output.write_text(page(engines, options.kills), encoding="utf-8")


if __name__ == "__main__":
    main()
