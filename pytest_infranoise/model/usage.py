"""What an agent says that its work has cost: tokens, money, time with the model.

Nobody vouches for these figures. They are read from a file that the agent may leave, so whatever
stands there is bounded, and what is not as documented is unknown.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

USAGE_PATH = "/logs/agent/usage.json"
"""Where an agent may leave its usage, as a JSON object with the fields of `Usage`."""

MAX_USAGE_BYTES = 64 * 1024
MAX_COUNT = 10**15
MAX_COST_USD = 1e6
MAX_SECONDS = 1e9
MAX_TEXT_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Usage:
    """What one agent's run has used; None is unknown.

    `input_tokens` includes `cached_input_tokens`. `model_seconds` is how long the agent waited for
    its model, `requests` how many answers it asked for, `retries` how many of these requests it
    repeated after an error.
    """

    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    model_seconds: float | None = None
    requests: int | None = None
    retries: int | None = None
    model: str | None = None
    agent_version: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known."""
        return self == _NOTHING


_NOTHING = Usage()
COUNTS = ("input_tokens", "cached_input_tokens", "output_tokens", "requests", "retries")
AMOUNTS = {"cost_usd": MAX_COST_USD, "model_seconds": MAX_SECONDS}
TEXTS = ("model", "agent_version")
NUMBERS = tuple(item.name for item in fields(Usage) if item.name not in TEXTS)


def parse_usage(content: bytes) -> tuple[Usage | None, str | None]:
    """Read a `usage.json`; return what it says, and a note on what cannot be used of it."""
    if len(content) > MAX_USAGE_BYTES:
        return None, f"usage.json is larger than {MAX_USAGE_BYTES // 1024} KiB and was not read"
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        return None, "usage.json is not JSON"
    if not isinstance(values, dict):
        return None, "usage.json is not a JSON object"
    return usage_of(values, source="usage.json")


def usage_of(values: Mapping[str, Any], *, source: str) -> tuple[Usage | None, str | None]:
    """Take the known fields of a mapping; those of another kind are unknown, and named in a note.

    Fields that are not known here are passed over, since agents have more to say.
    """
    known: dict[str, Any] = {}
    refused = []
    for item in fields(Usage):
        value = values.get(item.name)
        if value is None:
            continue
        taken = _taken(item.name, value)
        if taken is None:
            refused.append(item.name)
        else:
            known[item.name] = taken
    note = f"{source}: not as documented, so unknown: {', '.join(refused)}" if refused else None
    return (Usage(**known) if known else None), note


def _taken(name: str, value: Any) -> Any:
    """Return a field's value as it may be kept, None for one that is none."""
    if name in TEXTS:
        is_text = isinstance(value, str) and value.isprintable()
        return value.strip()[:MAX_TEXT_CHARACTERS] or None if is_text else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if name in AMOUNTS:
        return float(value) if 0 <= value <= AMOUNTS[name] else None
    is_whole = isinstance(value, int) or value.is_integer()
    return int(value) if 0 <= value <= MAX_COUNT and is_whole else None


def together(parts: Iterable[Usage | None]) -> Usage | None:
    """Return the usage of an agent that ran in several steps; one unknown part makes it unknown."""
    known = [_NOTHING if part is None else part for part in parts]
    if not known:
        return None
    values: dict[str, Any] = {}
    for name in NUMBERS:
        found = [getattr(part, name) for part in known]
        values[name] = None if None in found else sum(found)
    for name in TEXTS:
        said = dict.fromkeys(text for part in known if (text := getattr(part, name)))
        values[name] = ", ".join(said) or None
    usage = Usage(**values)
    return None if usage.is_empty else usage


@dataclass(slots=True)
class UsageTotals:
    """Sums over the attempts of a study, each with the number of attempts that it is known of.

    `attempts` are all that were taken, `reported` those that said anything.
    """

    attempts: int = 0
    reported: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> Self:
        """Sum up records of a journal; older ones have no usage."""
        totals = cls()
        for record in records:
            totals.take(record.get("usage"))
        return totals

    def take(self, usage: Any) -> None:
        """Add one attempt's usage, as the journal has it; anything else than a dict is unknown."""
        self.attempts += 1
        if not isinstance(usage, Mapping):
            return
        self.reported += 1
        for name in NUMBERS:
            value = usage.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                self.sums[name] = self.sums.get(name, 0) + value
                self.known[name] = self.known.get(name, 0) + 1
        for name in TEXTS:
            text = usage.get(name)
            if isinstance(text, str) and text not in self.texts.setdefault(name, []):
                self.texts[name].append(text)

    @property
    def cost_usd(self) -> float:
        """The reported costs together: 0 where nobody reported any."""
        return self.sums.get("cost_usd", 0.0)

    @property
    def with_cost(self) -> int:
        """How many attempts reported their cost."""
        return self.known.get("cost_usd", 0)

    def to_json(self) -> dict[str, Any]:
        """Return builtins: each sum with the number of attempts behind it; unknown is null."""
        return {
            "attempts": self.attempts,
            "reported": self.reported,
            **{
                name: {"sum": _finite(self.sums.get(name)), "attempts": self.known.get(name, 0)}
                for name in NUMBERS
            },
            **{f"{name}s": self.texts.get(name, []) for name in TEXTS},
        }


def _finite(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else None
