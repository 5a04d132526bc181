"""How the study was made: facts for people, and the whole manifest as text."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_infranoise.report.page.model import UNKNOWN, Facts
from pytest_infranoise.report.view import StudyView
from pytest_infranoise.study.configuration import group
from pytest_infranoise.units import format_size

MANIFEST_CHARACTERS = 400_000
_LINE_CHARACTERS = 4_000


def facts(view: StudyView) -> Facts:
    """Return what was run, where and when."""
    manifest = view.manifest
    return (
        ("study", _text(manifest.get("study"))),
        ("started", _text(manifest.get("started_at"))),
        ("ended", "not yet" if view.is_growing else _text(manifest.get("ended_at"))),
        ("command", _command(manifest)),
        ("agent", _agent(manifest)),
        ("seed", _text(manifest.get("seed"))),
        ("host", _host(manifest)),
        ("memory of the host", _memory(manifest)),
        ("load at start, end", _loads(manifest)),
        ("tasks from", _git(manifest)),
        ("software", _software(manifest)),
        ("disclosed", _disclosed(manifest)),
    )


def _text(value: Any) -> str:
    return UNKNOWN if value is None or value == "" else str(value)


def _command(manifest: Mapping[str, Any]) -> str:
    words = manifest.get("command_line")
    return " ".join(map(str, words)) if isinstance(words, list) and words else UNKNOWN


def _agent(manifest: Mapping[str, Any]) -> str:
    agent = group(manifest, "agent")
    parts = [agent.get("name"), agent.get("version"), agent.get("command")]
    words = [str(part) for part in dict.fromkeys(parts) if part]
    return ", ".join(words) or UNKNOWN


def _host(manifest: Mapping[str, Any]) -> str:
    host = group(manifest, "host")
    if not host:
        return UNKNOWN
    cpus = f"{_text(host.get('cpu_count'))} CPUs ({_text(host.get('cpu_model'))})"
    return f"{_text(host.get('system'))} {_text(host.get('kernel'))}, {cpus}"


def _memory(manifest: Mapping[str, Any]) -> str:
    host = group(manifest, "host")
    memory, swap = (
        format_size(size) if isinstance(size := host.get(name), int) else UNKNOWN
        for name in ("memory_bytes", "swap_bytes")
    )
    return f"{memory}, swap {swap}"


def _loads(manifest: Mapping[str, Any]) -> str:
    return ", ".join(_load(manifest, name) for name in ("load_at_start", "load_at_end"))


def _load(manifest: Mapping[str, Any], name: str) -> str:
    averages = group(manifest, name).get("load_average")
    first = averages[0] if isinstance(averages, list) and averages else None
    return f"{first:.2f}" if isinstance(first, int | float) else UNKNOWN


def _git(manifest: Mapping[str, Any]) -> str:
    entries = manifest.get("sources_git")
    known = [entry for entry in entries or () if isinstance(entry, Mapping)]
    words = [
        f"{_text(entry.get('repository'))} {str(entry.get('commit') or UNKNOWN)[:12]}"
        + (" with uncommitted changes" if entry.get("is_dirty") else "")
        for entry in known
    ]
    return ", ".join(words) or UNKNOWN


def _software(manifest: Mapping[str, Any]) -> str:
    software = group(manifest, "software")
    if not software:
        return UNKNOWN
    known = group(software, "dependencies")
    others = [f"{name} {known[name]}" for name in ("pytest", "pytest-xdist") if known.get(name)]
    own = f"pytest-infranoise {_text(software.get('pytest_infranoise'))}"
    return ", ".join([own, f"Python {_text(software.get('python'))}", *others])


def _disclosed(manifest: Mapping[str, Any]) -> str:
    given = group(manifest, "disclosed")
    return "; ".join(f"{name}: {value}" for name, value in given.items()) or "nothing"


def manifest_text(manifest: Mapping[str, Any]) -> str:
    """Return the manifest as JSON in ASCII, an entry of a list or group per line.

    Only a manifest of more than `MANIFEST_CHARACTERS` is cut, and says so.
    """
    lines, size = [], 0
    for line in _lines(manifest):
        shown = line if len(line) <= _LINE_CHARACTERS else line[:_LINE_CHARACTERS] + " ... (cut)"
        size += len(shown) + 1
        if size > MANIFEST_CHARACTERS:
            lines.append("... (cut; the study's manifest.json has the rest)")
            break
        lines.append(shown)
    return "\n".join(lines)


def _lines(manifest: Mapping[str, Any]) -> Iterator[str]:
    for name, value in manifest.items():
        head = json.dumps(name)
        if isinstance(value, Mapping) and value:
            yield f"{head}: {{"
            for key, item in value.items():
                yield f"  {json.dumps(key)}: {json.dumps(item)}"
            yield "}"
        elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
            yield f"{head}: ["
            yield from (f"  {json.dumps(item)}" for item in value)
            yield "]"
        else:
            yield f"{head}: {json.dumps(value)}"
