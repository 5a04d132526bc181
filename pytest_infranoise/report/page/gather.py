"""What the pages need of the records themselves: peaks, limits, and how special trials ended."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_infranoise.analysis.figures import plural
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.report.model import one_line
from pytest_infranoise.report.page.model import TrialNote
from pytest_infranoise.report.terminal import trial_lines
from pytest_infranoise.study.accounts import measured

TRIALS_SHOWN = 40
OUTPUT_CHARACTERS = 2_000

Key = tuple[str, str]
"""Task and parameter set."""


@dataclass
class MemoryUse:
    """Memory of one task in one set; None is unknown, or no limit."""

    peak_bytes: int | None = None
    limit_bytes: int | None = None
    kills: int | None = None


@dataclass
class Gathered:
    """What one pass over the records finds; `special` counts the trials of which `notes` has some.

    Trials that plainly passed or failed are not special.
    """

    memory: dict[Key, MemoryUse] = field(default_factory=dict)
    notes: list[TrialNote] = field(default_factory=list)
    special: int = 0


def gather(records: Iterable[Mapping[str, Any]], *, last_sample: int) -> Gathered:
    """Read the first attempts up to a sample, as the figures do."""
    found = Gathered()
    for record in measured(records):
        if record["attempt"] != 1 or record["sample"] > last_sample:
            continue
        key = (record["task"], record["parameter_set"])
        _add(found.memory.setdefault(key, MemoryUse()), record)
        if record["outcome"] not in (Outcome.PASSED, Outcome.FAILED):
            found.special += 1
            if found.special <= TRIALS_SHOWN:
                found.notes.append(_note(record))
    return found


def _add(use: MemoryUse, record: Mapping[str, Any]) -> None:
    use.peak_bytes = _largest(use.peak_bytes, record.get("memory_peak_bytes"))
    use.limit_bytes = _largest(use.limit_bytes, record.get("memory_limit_bytes"))
    kills = record.get("oom_kills")
    if isinstance(kills, int):
        use.kills = (use.kills or 0) + kills


def _largest(known: int | None, value: Any) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return known
    return value if known is None else max(known, value)


def _note(record: Mapping[str, Any]) -> TrialNote:
    [line] = trial_lines([record], None)
    name = one_line(record["task"], 60)
    return TrialNote(line.text, name, _facts(record), tuple(_outputs(record)))


def _facts(record: Mapping[str, Any]) -> str:
    wall = record.get("wall_seconds")
    parts = [
        f"attempt started {record.get('started_at') or 'at an unknown time'}",
        "duration unknown" if wall is None else f"{wall:.1f} s",
        _kill_words(record.get("oom_kills")),
    ]
    return ", ".join(parts)


def _kill_words(kills: Any) -> str:
    if not isinstance(kills, int):
        return "kills not counted"
    return f"{plural(kills, 'kill')} at its threshold"


def _outputs(record: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield what each phase printed last, from the end of what was kept."""
    for phase in record.get("phases") or ():
        output = str(phase.get("output") or "")
        tail = output[-OUTPUT_CHARACTERS:]
        if not tail.strip():
            continue
        is_cut = len(output) > len(tail) or bool(phase.get("output_truncated"))
        code = phase.get("exit_code")
        heading = f"{phase.get('phase')}, exit code {'unknown' if code is None else code}"
        yield heading + (", the end of its output" if is_cut else ""), tail
