"""Shards of one study put together: in any order, and as often as one likes.

A merged study is a study like any other. It says of which parts it is made, so that it can be
merged again with parts that come later; records keep the id of the part that made them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from pytest_infranoise.errors import UsageError
from pytest_infranoise.study.files import write_json
from pytest_infranoise.study.journal import JOURNAL_NAME, Journal, encode_line
from pytest_infranoise.study.looks import LOOKS_NAME
from pytest_infranoise.study.sameness import changes, completed
from pytest_infranoise.study.sessions import missing_shards, sessions_of
from pytest_infranoise.study.store import Study, load_study
from pytest_infranoise.study.writer import MANIFEST_NAME

_SHOWN_CHANGES = 5
_OF_A_PART = (
    "study",
    "shard",
    "started_at",
    "ended_at",
    "local_timezone",
    "command_line",
    "options",
    "ini",
    "sessions",
    "backend",
    "admission",
    "workers",
    "sources_git",
    "software",
    "host",
    "load_at_start",
    "load_at_end",
    "notes",
    "planned_trials",
    "unselected_trials",
    "usage",
)
"""What may differ between parts; the merged manifest keeps it for each."""
_OF_ALL = (
    "local_timezone",
    "options",
    "ini",
    "backend",
    "admission",
    "workers",
    "sources_git",
    "software",
    "host",
    "notes",
)
"""What the merged manifest says itself, as far as its parts agree."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge came to; `missing` are the numbers of shards that are not among the parts."""

    directory: Path
    parts: tuple[str, ...]
    records: int
    missing: tuple[int, ...]
    is_new: bool


def merge(paths: Sequence[Path], directory: Path) -> Merged:
    """Write one study of several in `directory`.

    Where that folder holds exactly this study already, nothing is written.

    Raises:
        UsageError: the studies do not belong together, which is said by name, one of them cannot
            be read, or the folder holds something else.
    """
    studies = _distinct(paths)
    _require_one_study(studies)
    parts = _parts(studies)
    records = _records(studies)
    manifest = _manifest(studies, parts)
    lines = [encode_line(record) for record in records]
    looks = _looks(studies)
    is_new = _write(directory, manifest, lines, looks)
    return Merged(directory, tuple(parts), len(lines), _missing(manifest), is_new)


def _distinct(paths: Sequence[Path]) -> list[Study]:
    """Return the studies, each once, in an order that does not depend on the arguments'."""
    by_folder = {path.resolve(): load_study(path) for path in paths}
    studies = list(by_folder.values())
    for study in studies:
        if study.manifest.data.get("seed") is None:
            raise UsageError(f"{study.directory}: imported counts cannot be merged")
        if study.manifest.data.get("planned_looks"):
            raise UsageError(
                f"{study.directory}: a study with --infra-until-decided cannot be merged, since "
                "its looks saw a part only"
            )
    return sorted(studies, key=lambda study: (study.manifest.study, str(study.directory)))


def _require_one_study(studies: Sequence[Study]) -> None:
    first, *others = studies
    for other in others:
        ours, theirs = first.manifest.data, other.manifest.data
        found = [change.words("there", "here") for change in changes(ours, theirs)]
        for name, what in (("samples", "samples"), ("extended_from", "samples before it grew")):
            if (ours.get(name) or None) != (theirs.get(name) or None):
                found.append(f"{what}: {ours.get(name)} there, {theirs.get(name)} here")
        found += [] if _of(ours) == _of(theirs) else [f"shards: {_of(ours)} and {_of(theirs)}"]
        if found:
            more = len(found) - _SHOWN_CHANGES
            words = "; ".join(found[:_SHOWN_CHANGES]) + (f"; {more} more" if more > 0 else "")
            raise UsageError(f"{other.directory} is not part of {first.directory}'s study: {words}")


def _of(manifest: Mapping[str, Any]) -> int | None:
    """Return into how many shards a study was cut; None for a whole one."""
    shard = manifest.get("shard") or manifest.get("shards")
    return None if not shard else int(shard["of"])


def _parts(studies: Sequence[Study]) -> dict[str, dict[str, Any]]:
    """Return what each part says of itself by its id; a merged study is many parts."""
    parts: dict[str, dict[str, Any]] = {}
    for study in studies:
        data = study.manifest.data
        own = data.get("parts") or [{name: data.get(name) for name in _OF_A_PART}]
        for part in own:
            name = str(part["study"])
            if name in parts and parts[name] != part:
                # The same part at two moments (it went on meanwhile): the later one knows more.
                part = max(part, parts[name], key=_age)
            parts[name] = dict(part)
    return dict(sorted(parts.items()))


def _age(part: Mapping[str, Any]) -> tuple[int, str, str]:
    return (len(part.get("sessions") or ()), str(part.get("ended_at") or ""), json.dumps(part))


def _records(studies: Sequence[Study]) -> list[dict[str, Any]]:
    """Return every record once, in the study's order.

    Raises:
        UsageError: two studies ran the same trial.
    """
    found: dict[tuple[Any, ...], tuple[Study, dict[str, Any]]] = {}
    for study in studies:
        for record in study.records():
            key = (record["task"], record["parameter_set"], record["sample"], record["attempt"])
            holder, known = found.setdefault(key, (study, record))
            if known != record:
                raise UsageError(
                    f"{study.directory} and {holder.directory} both ran {key[0]} at {key[1]}, "
                    f"sample {key[2]}; they are not parts of one study"
                )
    records = [record for _, record in found.values()]
    return sorted(records, key=_place)


def _place(record: Mapping[str, Any]) -> tuple[Any, ...]:
    position = record.get("position")
    names = ("attempt", "task", "parameter_set", "sample")
    return (position is None, position or 0, *(record[name] for name in names))


def _manifest(studies: Sequence[Study], parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the manifest of the whole; one part alone stays what it is."""
    if len(parts) == 1:
        newest = max(studies, key=lambda study: _age(study.manifest.data))
        return dict(newest.manifest.data)
    all_parts = list(parts.values())
    apart = {*_OF_A_PART, "tasks", "disclosed", "shards", "parts"}
    common = _agreed(
        [
            {key: value for key, value in study.manifest.data.items() if key not in apart}
            for study in studies
        ]
    )
    ends = [part["ended_at"] for part in all_parts]
    planned = [part["planned_trials"] for part in all_parts]
    sessions = [
        {**session, "study": part["study"]} for part in all_parts for session in sessions_of(part)
    ]
    shards = [part["shard"] for part in all_parts if part["shard"]]
    return {
        **common,
        "study": _merged_id(parts),
        "started_at": min(part["started_at"] for part in all_parts),
        "ended_at": max(ends) if all(ends) else None,
        "command_line": None,
        "sessions": sorted(sessions, key=lambda item: (str(item["started_at"]), item["study"])),
        "shard": None,
        "shards": {
            "of": shards[0]["of"],
            "numbers": sorted({shard["number"] for shard in shards}),
        }
        if shards
        else None,
        "planned_trials": None if None in planned else sum(planned),
        "tasks": _tasks(studies),
        "disclosed": _disclosed(studies),
        **{name: _agreed([part[name] for part in all_parts]) for name in _OF_ALL},
        "load_at_start": None,
        "load_at_end": None,
        "parts": all_parts,
    }


def _merged_id(parts: Iterable[str]) -> str:
    """Return an id that depends on the parts alone."""
    return "merged-" + sha256("\0".join(sorted(parts)).encode()).hexdigest()[:12]


def _agreed(values: Sequence[Any]) -> Any:
    """Return what all parts say. Of mappings, keys on which they do not agree become unknown."""
    first = values[0]
    if all(isinstance(value, Mapping) for value in values):
        keys = list(dict.fromkeys(key for value in values for key in sorted(value)))
        return {key: _agreed([value.get(key) for value in values]) for key in keys}
    return first if all(value == first for value in values) else None


def _tasks(studies: Sequence[Study]) -> list[dict[str, Any]]:
    """Return every task once; what its parts did not build alike becomes unknown."""
    order = max((study.manifest.tasks for study in studies), key=lambda names: (len(names), names))
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for study in studies:
        for task in study.manifest.data["tasks"]:
            by_name.setdefault(str(task["name"]), []).append(task)
    names = [*order, *sorted(by_name.keys() - set(order))]
    return [_agreed(completed(by_name[name])) for name in names]


def _disclosed(studies: Sequence[Study]) -> dict[str, str]:
    """Return what users said of the parts; where they contradict one another, all of it."""
    said: dict[str, set[str]] = {}
    for study in studies:
        for key, value in (study.manifest.data.get("disclosed") or {}).items():
            said.setdefault(key, set()).update(str(value).split(" / "))
    return {key: " / ".join(sorted(said[key])) for key in sorted(said)}


def _missing(manifest: Mapping[str, Any]) -> tuple[int, ...]:
    shards = manifest.get("shards")
    if not shards and manifest.get("shard"):
        shards = {"of": manifest["shard"]["of"], "numbers": [manifest["shard"]["number"]]}
    return missing_shards(shards)


def _looks(studies: Sequence[Study]) -> bytes:
    """Return the unplanned looks at any part, each once."""
    lines: set[bytes] = set()
    for study in studies:
        file = study.directory / LOOKS_NAME
        if file.exists():
            lines.update(file.read_bytes().splitlines(keepends=True))
    return b"".join(sorted(lines))


def _write(directory: Path, manifest: Mapping[str, Any], lines: list[bytes], looks: bytes) -> bool:
    """Write the study; return False where it stands there already."""
    names = (MANIFEST_NAME, JOURNAL_NAME, LOOKS_NAME)
    if any((directory / name).exists() for name in names):
        if _is_there(directory, manifest, lines):
            return False
        raise UsageError(f"-o: {directory} holds something else; name a folder that is free")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with Journal(directory) as journal:  # what is removed below is ours as long as it is held
            try:
                journal.extend(lines)
                if looks:
                    (directory / LOOKS_NAME).write_bytes(looks)
                write_json(directory / MANIFEST_NAME, manifest)
            except BaseException:
                for name in names:
                    (directory / name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise UsageError(f"-o: {directory} cannot be written: {error.strerror}") from error
    return True


def _is_there(directory: Path, manifest: Mapping[str, Any], lines: list[bytes]) -> bool:
    if not (directory / MANIFEST_NAME).exists():
        return False
    known = load_study(directory)
    return known.manifest.data == manifest and known.journal.read_bytes() == b"".join(lines)
