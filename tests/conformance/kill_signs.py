"""What different signs say of one trial's kills, and tables of how often each was right."""

from collections.abc import Iterator, Sequence
from typing import Any

from scenario import Scenario

from pytest_infranoise.model.trial import TrialRecord

SIGNS = {
    "flag": "`State.OOMKilled` at the trial's end",
    "flag_stopped": "`State.OOMKilled` after a stop",
    "exit_137": "exit code 137 alone",
    "record": "this project's record",
}


def true_kills(scenario: Scenario, engine: str) -> tuple[int, int] | None:
    """Return between which numbers the kernel's kills lie; None where a race leaves it open.

    A count that an engine cannot read is of a scenario without a kill.
    """
    bounds = []
    for right in scenario.right_on(engine):
        counts = [count or 0 for count in right.kills.values()]
        pairs = [count if isinstance(count, tuple) else (count, count) for count in counts]
        bounds.append((sum(low for low, _ in pairs), sum(high for _, high in pairs)))
    low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
    return None if low == 0 < high else (low, high)


def observe(record: TrialRecord, flag: bool, flag_stopped: bool) -> dict[str, Any]:
    """Return how many kills each sign reports of a trial; the flag before and after a stop."""
    died = [phase for phase in record.phases if phase.exit_code == 137]
    return {
        "flag": int(flag),
        "flag_stopped": int(flag_stopped),
        "exit_137": len(died),
        "record": sum(phase.oom_kills or 0 for phase in record.phases if phase.phase != "teardown"),
    }


def kills_table(contents: Sequence[dict[str, Any]]) -> list[str]:
    """How many trials with a kill each sign saw, how many without it accused, kills it counted."""
    lines = [
        "| engine | sign | trials with a kill that it saw | trials without that it accused "
        "| kills that it counted |",
        "|---|---|---|---|---|",
    ]
    for content in contents:
        trials = content["trials"]
        killed = [trial for trial in trials if trial["true"][0] > 0]
        spared = [trial for trial in trials if trial["true"][1] == 0]
        exact = [trial for trial in killed if trial["true"][0] == trial["true"][1]]
        total = sum(trial["true"][0] for trial in exact)
        for sign, name in SIGNS.items():
            seen = sum(1 for trial in killed if trial[sign] > 0)
            accused = sum(1 for trial in spared if trial[sign] > 0)
            counted = sum(min(trial[sign], trial["true"][0]) for trial in exact)
            lines.append(
                f"| `{content['engine']}` | {name} | {seen} of {len(killed)} "
                f"| {accused} of {len(spared)} | {counted} of {total} |"
            )
    return lines


def mistakes_table(contents: Sequence[dict[str, Any]]) -> list[str]:
    """The trials in which a sign did not say whether there was a kill."""
    lines = [
        f"| engine | scenario | kills | {' | '.join(SIGNS.values())} |",
        "|---|---|---|---|---|---|---|",
    ]
    for content in contents:
        lines += (_mistake(content["engine"], trial) for trial in _mistaken(content["trials"]))
    return lines


def _mistaken(trials: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for trial in trials:
        if any((trial[sign] > 0) != (trial["true"][0] > 0) for sign in SIGNS):
            yield trial


def _mistake(engine: str, trial: dict[str, Any]) -> str:
    low, high = trial["true"]
    kills = str(low) if low == high else f"{low} or more"
    said = [("no", "yes")[trial[sign] > 0] for sign in SIGNS if sign != "record"]
    cells = [f"`{engine}`", trial["scenario"], kills, *said, str(trial["record"])]
    return f"| {' | '.join(cells)} |"
