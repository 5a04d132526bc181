"""Reading JSON that other tools wrote: every refusal names file and key."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_infranoise.errors import UsageError


@dataclass(frozen=True, slots=True)
class Fields:
    """One JSON object of a file; `place` is where in the file it stands (`results[3].`)."""

    file: Path
    values: Mapping[str, Any]
    place: str = ""

    def refusal(self, key: str, problem: str) -> UsageError:
        """Return the error about one key."""
        return UsageError(f"{self.file}: {self.place}{key}: {problem}")

    def text(self, key: str) -> str:
        """Return a name: printable text that is not empty."""
        value = self.optional_text(key)
        if not value:
            raise self.refusal(key, "is missing" if value is None else "is empty")
        return value

    def optional_text(self, key: str) -> str | None:
        """Return printable text, None where there is none."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.refusal(key, f"{_shown(value)} is not text")
        if value is not None and not value.isprintable():
            raise self.refusal(key, "has unprintable characters")
        return value

    def optional_flag(self, key: str) -> bool | None:
        """Return true or false, None where neither is said."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.refusal(key, f"{_shown(value)} is neither true nor false")
        return value

    def optional_count(self, key: str) -> int | None:
        """Return a whole number from 0, None where there is none."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.refusal(key, f"{_shown(value)} is not a whole number")
        return value

    def optional_time(self, key: str) -> datetime | None:
        """Return a moment, UTC where the file names no zone; None where there is none."""
        text = self.optional_text(key)
        if text is None:
            return None
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise self.refusal(key, f"{_shown(text)} is not a time") from None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)

    def numbers(self, key: str) -> dict[str, float]:
        """Return an object of finite numbers; empty where there is none."""
        inner = self.optional_object(key)
        if inner is None:
            return {}
        found = {}
        for name, value in inner.values.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            try:
                number = float(value) if is_number else math.nan
            except OverflowError:  # a whole number that no float holds
                number = math.inf
            if not math.isfinite(number):
                raise inner.refusal(name, f"{_shown(value)} is not a finite number")
            found[name] = number
        return found

    def optional_object(self, key: str) -> "Fields | None":
        """Return an object inside this one, None where there is none."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.refusal(key, f"{_shown(value)} is not an object")
        return Fields(self.file, value, f"{self.place}{key}.")

    def objects(self, key: str) -> Iterator["Fields"]:
        """Yield the objects of a list; none where there is no list."""
        for number, value in enumerate(self._list(key)):
            if not isinstance(value, dict):
                raise self.refusal(f"{key}[{number}]", f"{_shown(value)} is not an object")
            yield Fields(self.file, value, f"{self.place}{key}[{number}].")

    def names(self, key: str) -> list[str]:
        """Return a list of different names; empty where there is no list."""
        found: dict[str, None] = {}
        for number, value in enumerate(self._list(key)):
            place = f"{key}[{number}]"
            if not isinstance(value, str) or not value or not value.isprintable():
                raise self.refusal(place, f"{_shown(value)} is not a name")
            if value in found:
                raise self.refusal(place, f"{_shown(value)} stands in the list twice")
            found[value] = None
        return list(found)

    def _list(self, key: str) -> list[Any]:
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.refusal(key, f"{_shown(value)} is not a list")
        return value


def read_fields(file: Path) -> Fields:
    """Read a JSON file that holds an object.

    Raises:
        UsageError: it cannot be read, is not JSON, or holds something else.
    """
    try:
        values = json.loads(file.read_bytes())
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: not JSON: {error}") from error
    if not isinstance(values, dict):
        raise UsageError(f"{file}: not a JSON object")
    return Fields(file, values)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
