"""`--infra-note KEY=VALUE`: facts that only the user knows, for the manifest and the card."""

from collections.abc import Sequence

from pytest_infranoise.errors import UsageError
from pytest_infranoise.study.redact import redact_arguments


def parse_notes(values: Sequence[str], *, where: str) -> dict[str, str]:
    """Read `KEY=VALUE` pairs; blanks and underscores in a key become hyphens.

    A value that looks like a secret is hidden.

    Raises:
        UsageError: no `=`, an empty key or value, or a key that is given twice.
    """
    notes: dict[str, str] = {}
    for text in values:
        key, _, value = (part.strip() for part in text.partition("="))
        if not (key and value and key.isprintable()):
            raise UsageError(
                f"{where}: {text!r} is not KEY=VALUE, as in inference-endpoint=https://api.example"
            )
        name = "-".join(key.lower().replace("_", " ").split())
        if name in notes:
            raise UsageError(f"{where}: {name} is given twice; say it once")
        (shown,) = redact_arguments([f"{name}={value}"])
        notes[name] = shown.partition("=")[2]
    return notes
