"""YAML files, through PyYAML, which is an extra."""

from pathlib import Path
from typing import Any

from pytest_infranoise.errors import UsageError

INSTALL = "pip install 'PyYAML>=6.0'"
MAX_VALUES = 100_000
"""More than any task has; aliases (`*name`) can make a short file stand for billions."""


def load_yaml(path: Path, where: str) -> Any:
    """Return what a YAML file holds; `where` names it in messages.

    Raises:
        UsageError: PyYAML is not installed, or the file cannot be read or is not valid.
    """
    try:
        import yaml
    except ImportError:
        raise UsageError(f"{where}: reading it needs PyYAML; {INSTALL}") from None
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
        if _number_of_values(document, {}) > MAX_VALUES:
            raise UsageError(
                f"{where}: expands to more than {MAX_VALUES:,} values; use fewer aliases"
            )
        return document
    except FileNotFoundError:
        raise UsageError(f"{where}: missing") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{where}: cannot be read: {error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        words = " ".join(str(error).split())
        raise UsageError(f"{where}: not valid YAML: {words[:300]}") from None


def _number_of_values(value: Any, known: dict[int, int]) -> int:
    """Return how many values a document has with each alias written out; each is counted once.

    Raises:
        ValueError: a value holds itself.
    """
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = -1
        inner = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_number_of_values(item, known) for item in inner)
    if known[id(value)] < 0:
        raise ValueError("an alias stands inside what it stands for")
    return known[id(value)]


def mapping_of(value: Any, where: str) -> dict[str, Any]:
    """Return a YAML mapping with keys of text; nothing at all is an empty one.

    Raises:
        UsageError: it is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise UsageError(f"{where}: must be a mapping of names, not {shown(value)}")
    return value


def text_of(value: Any, where: str) -> str:
    """Return a YAML string that is not blank.

    Raises:
        UsageError: it is something else.
    """
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{where}: must be text, not {shown(value)}")
    return value


def shown(value: Any) -> str:
    """Return a value as messages show it: one short line."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
