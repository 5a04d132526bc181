"""What a study that was made elsewhere says of its source, and what it therefore cannot show."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

COUNTS = "counts"
"""The `source.kind` of a manifest whose trials are known by their outcomes alone."""

TOOLS: Mapping[str, str] = {
    "harbor": "Harbor",
    "swebench": "SWE-bench",
    "terminal-bench": "Terminal-Bench",
}
"""Other tools by the `source.kind` of a study made of their results; none records kills."""

_NAMES = 6


def records_kills(manifest: Mapping[str, Any]) -> bool:
    """Whether a memory kill would stand in this study as one; counts are taken at their word."""
    return _kind(manifest) not in TOOLS


def source_words(manifest: Mapping[str, Any]) -> str | None:
    """Return where an imported study comes from, None for one that was run here."""
    kind, source = _kind(manifest), manifest.get("source")
    if kind == COUNTS and isinstance(source, Mapping):
        return f"imported counts ({str(source.get('file'))[:60]})"
    if kind not in TOOLS:
        return None
    names = [str(run.get("name")) for run in _runs(manifest)]
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return f"imported from {TOOLS[kind]} ({', '.join(names[:_NAMES])}{more})"


def source_notes(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Say what an imported study lacks, and which conclusions cannot be drawn from it."""
    if records_kills(manifest):
        return
    yield (
        f"{TOOLS[_kind(manifest)]}'s files hold no kills, limits, peaks or order: a memory kill "
        "stands among failed, timeout or infra, so infra errors are a lower bound"
    )
    yield (
        "what cannot be concluded: what to set as guarantee or kill threshold, and whether "
        "failures moved beyond the repair of crashes"
    )
    left_out: Counter[str] = Counter()
    for run in _runs(manifest):
        left_out.update(run.get("left_out") or {})
    if left_out:
        reasons = ", ".join(f"{number} {reason}" for reason, number in sorted(left_out.items()))
        yield f"left out: {reasons}"
    for run in _runs(manifest):
        for note in run.get("notes") or ():
            yield f"{run.get('name')}: {note}"
    if changed := manifest.get("changed_tasks"):
        shown = ", ".join(map(str, changed[:_NAMES])) + (", ..." if len(changed) > _NAMES else "")
        yield f"the content of {len(changed)} task(s) differs between the imports: {shown}"


def _kind(manifest: Mapping[str, Any]) -> str:
    source = manifest.get("source")
    return str(source.get("kind")) if isinstance(source, Mapping) else ""


def _runs(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    source = manifest.get("source")
    runs = source.get("runs") if isinstance(source, Mapping) else None
    return [run for run in runs if isinstance(run, Mapping)] if isinstance(runs, list) else []
