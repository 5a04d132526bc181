"""Keeping secrets out of what a study writes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_infranoise.model.trial import TrialRecord
from pytest_infranoise.model.usage import TEXTS

MINIMUM_SECRET_LENGTH = 4
"""Shorter values (`1`, `on`) are settings; replacing them everywhere would destroy the output."""

MINIMUM_PART_LENGTH = 12
"""Shorter parts of a value that a text was cut through tell nothing, and may stand there anyway."""

_NAME = (
    r"[\w.-]*?(?:api[_-]?key|(?:access|private)[_-]?key|token|secret|passw(?:or)?d|credentials?)"
)
_VALUE = r"(?P<value>'[^']*'|\"[^\"]*\"|\S+)"
_SECRETS = (
    # NAME=value and NAME_2=value, also as an option
    re.compile(rf"(?P<name>(?<![\w-]){_NAME}(?:[_-]\w*)?=){_VALUE}", re.IGNORECASE),
    # --name value inside a longer command
    re.compile(rf"(?P<name>(?<!\S)--?{_NAME}\s+){_VALUE}", re.IGNORECASE),
    # a header: "x-api-key: value", "Authorization: Bearer value"
    re.compile(rf"(?P<name>(?<![\w-]){_NAME}:\s+){_VALUE}", re.IGNORECASE),
    re.compile(rf"(?P<name>\b(?:bearer|basic)\s+){_VALUE}", re.IGNORECASE),
)
_SECRET_OPTION = re.compile(rf"--?{_NAME}", re.IGNORECASE)
_URL_USER = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^/\s@]+@", re.IGNORECASE)
_HIDDEN = "<redacted>"


@dataclass(frozen=True, slots=True)
class Redactor:
    """Replaces the values of named secrets in text; `secrets` maps names to values."""

    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    def text(self, text: str) -> str:
        """Return the text with every secret value replaced by its name.

        Output is kept from its end and messages are kept from their start, so a part of a value
        that the cut has left at either end is replaced too.
        """
        for name, value in sorted(self.secrets.items(), key=lambda item: (-len(item[1]), item[0])):
            if len(value) >= MINIMUM_SECRET_LENGTH:
                text = _without_cut_value(
                    text.replace(value, f"<redacted {name}>"), value, f"<redacted {name}>"
                )
        return text

    def value(self, value: Any) -> Any:
        """Return builtins (nested dicts, lists, text) with every text redacted, keys excepted."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value

    def trial(self, record: TrialRecord) -> TrialRecord:
        """Return a trial's record as it may be shown, in a terminal or a file."""
        if not self.secrets:
            return record
        phases = tuple(
            replace(
                phase,
                output=self.text(phase.output),
                error=None if phase.error is None else self.text(phase.error),
            )
            for phase in record.phases
        )
        detail = None if record.detail is None else self.text(record.detail)
        usage = record.usage
        if usage is not None:
            usage = replace(usage, **{name: self.value(getattr(usage, name)) for name in TEXTS})
        notes = tuple(self.text(note) for note in record.notes)
        return replace(record, phases=phases, detail=detail, usage=usage, notes=notes)

    def record(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a trial's record with its free text redacted; names and figures stay."""
        redacted = dict(record)
        if not self.secrets:
            return redacted
        for key in ("detail", "notes", "effective", "usage"):
            if key in redacted:
                redacted[key] = self.value(redacted[key])
        if "phases" in redacted:
            redacted["phases"] = [
                {
                    key: self.value(item) if key in ("output", "error") else item
                    for key, item in phase.items()
                }
                for phase in redacted["phases"]
            ]
        return redacted


def _without_cut_value(text: str, value: str, name: str) -> str:
    """Return a text without the end of a value at its start, and without the start at its end."""
    for length in range(len(value) - 1, MINIMUM_PART_LENGTH - 1, -1):
        if text.startswith(value[-length:]):
            text = name + text[length:]
        if text.endswith(value[:length]):
            text = text[:-length] + name
    return text


def redact_arguments(arguments: list[str]) -> list[str]:
    """Return a command line without what looks like a secret.

    Hidden are the values of options, assignments and headers whose names speak of keys, tokens,
    secrets, passwords or credentials, and user names and passwords in URLs.
    """
    hidden = []
    hide_next = False
    for argument in arguments:
        if hide_next and not argument.startswith("-"):
            hidden.append(_HIDDEN)
        else:
            hidden.append(_without_secrets(argument))
        hide_next = _SECRET_OPTION.fullmatch(argument) is not None
    return hidden


def _without_secrets(text: str) -> str:
    for pattern in _SECRETS:
        text = pattern.sub(rf"\g<name>{_HIDDEN}", text)
    return _URL_USER.sub(rf"\g<scheme>{_HIDDEN}@", text)
