"""What a task hands to a separate verifier: `artifacts` and `[[verifier.collect]]`."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.task import MAIN_SERVICE, Artifact, CollectCommand
from pytest_infranoise.tasks.place import Place
from pytest_infranoise.units import parse_seconds

_SERVICE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*")
_ARTIFACT_KEYS = ("source", "destination", "exclude", "service")
_COLLECT_KEYS = ("command", "service", "timeout_sec", "user")


def read_artifacts(entries: Sequence[Any], place: Place) -> tuple[Artifact, ...]:
    """Return the artifacts listed at the key `artifacts` of the table at `place`.

    `destination` is a place in another harness's results and has no effect here.

    Raises:
        UsageError: one line that names the file, the entry and the key.
    """
    return tuple(_artifact(entry, place, number) for number, entry in enumerate(entries, 1))


def _artifact(entry: Any, place: Place, number: int) -> Artifact:
    where = f"{place.key('artifacts')} #{number}"
    values = _table({"source": entry} if isinstance(entry, str) else entry, _ARTIFACT_KEYS, where)
    source = _text(values.get("source"), f"{where} source")
    parts = PurePosixPath(source).parts
    if ".." in parts or parts in ((), ("/",)):
        raise UsageError(f"{where} source: {source!r} does not name one file or folder")
    exclude = values.get("exclude", [])
    if not isinstance(exclude, list) or not all(isinstance(item, str) for item in exclude):
        raise UsageError(f"{where} exclude: must be a list of patterns in quotes, not {exclude!r}")
    service = _service(values, where)
    if service != MAIN_SERVICE and not source.startswith("/"):
        raise UsageError(f"{where} source: {source!r} of service {service} is not an absolute path")
    return Artifact(str(PurePosixPath("/") / source), tuple(exclude), service)


def read_collect(entries: Sequence[Any], place: Place) -> tuple[CollectCommand, ...]:
    """Return the commands listed at the key `collect` of the table at `place`.

    Raises:
        UsageError: one line that names the file, the entry and the key.
    """
    return tuple(_collect(entry, place, number) for number, entry in enumerate(entries, 1))


def _collect(entry: Any, place: Place, number: int) -> CollectCommand:
    where = f"{place.key('collect')} #{number}"
    values = _table(entry, _COLLECT_KEYS, where)
    user = values.get("user")
    if user is not None and (isinstance(user, bool) or not isinstance(user, str | int)):
        raise UsageError(f"{where} user: must be a user's name or number, not {user!r}")
    return CollectCommand(
        command=_text(values.get("command"), f"{where} command"),
        service=_service(values, where),
        timeout_seconds=parse_seconds(
            values.get("timeout_sec", 60.0), where=f"{where} timeout_sec"
        ),
        user=None if user is None else str(user),
    )


def _table(entry: Any, known: Sequence[str], where: str) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise UsageError(f"{where}: must be a table with {known[0]}, not {entry!r}")
    for key in entry:
        if key not in known:
            raise UsageError(f"{where} {key}: unknown key; this table knows {', '.join(known)}")
    return entry


def _text(value: Any, where: str) -> str:
    if value is None:
        raise UsageError(f"{where}: missing")
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise UsageError(f"{where}: must be a text in quotes that is not empty, not {value!r}")
    return value


def _service(values: dict[str, Any], where: str) -> str:
    service = values.get("service")
    if service is None:
        return MAIN_SERVICE
    if not isinstance(service, str) or not _SERVICE.fullmatch(service):
        raise UsageError(f"{where} service: {service!r} cannot be the name of a service")
    return service
