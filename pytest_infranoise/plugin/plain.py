"""Properties of reports as plain builtins: xdist ends the session over anything else."""

import os
from collections.abc import Mapping, Set
from contextlib import suppress
from typing import Any

import pytest

_DEPTH = 20

_WARNED = pytest.StashKey[set[str]]()
"""Which properties this process has warned of."""


def make_sendable(item: pytest.Item, report: pytest.TestReport) -> None:
    """Convert what tests have recorded as properties; a warning names what is not kept as it is."""
    warned = item.config.stash.setdefault(_WARNED, set())
    properties: list[Any] = []
    for entry in report.user_properties:
        if not (isinstance(entry, tuple) and len(entry) == 2):
            properties.append(plain(entry))  # nobody's property, but it must not end the session
            continue
        name, value = entry
        sent = (str(plain(name)), plain(value))
        if not _is_same(value, sent[1]) and sent[0] not in warned:
            warned.add(sent[0])
            _warn(item, *sent, type(value).__name__)
        properties.append(sent)
    report.user_properties = properties


def _is_same(value: Any, sent: Any) -> bool:
    """Whether nothing is lost but the type's name."""
    try:
        return bool(value == sent)
    except Exception:  # noqa: BLE001 - an array has no truth value
        return False


def _warn(item: pytest.Item, name: str, sent: Any, kind: str) -> None:
    words = f"user property {name!r} of type {kind} cannot be sent by xdist; kept as {sent!r:.80}"
    with suppress(pytest.PytestWarning):  # -W error: a hook that raises ends the session
        item.warn(pytest.PytestWarning(words))


def plain(value: Any, depth: int = 0) -> Any:
    """Return a value as exact builtins: the same where it is made of them, else its text."""
    try:
        return _plain(value, depth)
    except Exception:  # noqa: BLE001 - a stranger's __str__ or __iter__ may raise anything
        return f"<{type(value).__name__}>"


def _plain(value: Any, depth: int) -> Any:
    if value is None or type(value) in (bool, int, float):
        return value
    if isinstance(value, str):
        return str.__str__(value).encode("utf-8", "backslashreplace").decode()
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if depth >= _DEPTH:
        return plain(str(value))
    if isinstance(value, Mapping):
        return {plain(key, depth + 1): plain(value[key], depth + 1) for key in value}
    if isinstance(value, list | tuple | Set):
        items = [plain(entry, depth + 1) for entry in value]
        return tuple(items) if isinstance(value, tuple) else items
    return _number_or_text(value)


def _number_or_text(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return plain(os.fspath(value))
    for name, kind in (("__index__", int), ("__float__", float)):
        if hasattr(type(value), name):
            return kind(value)
    return plain(str(value))
