"""Rows of a data set: JSON, JSON Lines or Parquet."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_infranoise.errors import UsageError

INSTALL = "pip install 'pyarrow>=15'"


def read_rows(path: Path, *, where: str) -> list[dict[str, Any]]:
    """Return the objects of a `.json` (a list, or a mapping to them), `.jsonl` or `.parquet` file.

    Raises:
        UsageError: it cannot be read, or holds something else; one line that begins with `where`.
    """
    try:
        if path.suffix == ".parquet":
            found = _parquet(path, where)
        elif path.suffix == ".jsonl":
            found = list(_lines(path.read_text(encoding="utf-8-sig"), where))
        elif path.suffix == ".json":
            found = _json(path.read_text(encoding="utf-8-sig"), where)
        else:
            raise UsageError(f"{where}: name a .json, .jsonl or .parquet file")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{where}: cannot be read: {error}") from None
    rows = list(found.values()) if isinstance(found, dict) else found
    if not isinstance(rows, list) or not rows:
        raise UsageError(f"{where}: must hold a list of objects, and at least one")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise UsageError(f"{where}: #{number} is not an object")
    return rows


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not valid JSON: {error}") from None


def _lines(text: str, where: str) -> Iterator[Any]:
    for number, line in enumerate(text.split("\n"), start=1):  # a string may hold other line ends
        if line.strip():
            yield _json(line, f"{where}: line {number}")


def _parquet(path: Path, where: str) -> Any:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise UsageError(f"{where}: reading it needs pyarrow; {INSTALL}") from None
    try:
        return parquet.read_table(path).to_pylist()
    except ArrowException as error:
        words = " ".join(str(error).split())
        raise UsageError(f"{where}: not a valid Parquet file: {words[:300]}") from None
