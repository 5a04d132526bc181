"""Studies with peaks and kills, made without running anything."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pytest_infranoise.model.outcome import Cause, Outcome
from pytest_infranoise.model.trial import TrialRecord
from pytest_infranoise.tasks.digest import directory_digest
from pytest_infranoise.units import MIB

DECLARED = 64
SETS: dict[str, int | None] = {"1x": DECLARED, "3x": 3 * DECLARED, "uncapped": None}
AGENT = {"name": "agent-a"}


def make_task(folder: Path, name: str, *, extra: str = "") -> Path:
    directory = folder / name
    for inner in ("environment", "tests"):
        (directory / inner).mkdir(parents=True)
    (directory / "task.toml").write_text(
        f'# {name}\nschema_version = "1.4"\n[environment]  # small\nmemory = "{DECLARED}M"\n{extra}'
    )
    (directory / "instruction.md").write_text("Do it.\n")
    (directory / "environment" / "Dockerfile").write_text("FROM scratch\n")
    (directory / "tests" / "test.sh").write_text("#!/bin/sh\n")
    return directory


def trial(task: str, name: str, sample: int, need: float, **facts: Any) -> TrialRecord:
    """One trial of a task that needs so many MiB: killed where the set has less."""
    limit = SETS[name]
    killed = limit is not None and need > limit
    values: dict[str, Any] = {
        "study": "made",
        "task": task,
        "parameter_set": name,
        "sample": sample,
        "attempt": 1,
        "block": sample,
        "position": sample,
        "seed": 1,
        "outcome": Outcome.OOM if killed else Outcome.PASSED,
        "cause": Cause.ENDED_PHASE if killed else None,
        "detail": None,
        "started_at": "2026-12-01T00:00:00+00:00",
        "worker": None,
        "oom_kills": int(killed),
        "memory_guarantee_bytes": DECLARED * MIB,
        "memory_limit_bytes": None if limit is None else limit * MIB,
        "memory_peak_bytes": int((need if limit is None else min(need, limit)) * MIB),
        "memory_working_set_bytes": MIB,
        "requested": {"memory_guarantee_bytes": DECLARED * MIB, "cpu_guarantee_cores": None},
    }
    return TrialRecord(**{**values, **facts})


def trials(
    task: str, needs: Sequence[float], sets: Iterable[str] = tuple(SETS), **facts: Any
) -> list[TrialRecord]:
    """One trial per set and need."""
    return [
        trial(task, name, number, need, **facts)
        for name in sets
        for number, need in enumerate(needs, 1)
    ]


def make_study(
    folder: Path,
    records: Iterable[TrialRecord],
    *,
    tasks: Iterable[Path] = (),
    agent: dict[str, str] = AGENT,
    cpu: float | None = None,
    **facts: Any,
) -> Path:
    """Write a study; `facts` replace what its manifest says."""
    rows = list(records)
    names = {row.parameter_set for row in rows} or {"1x"}
    factors = {"1x": 1, "3x": 3, "uncapped": None}
    spec = {
        "memory_guarantee_bytes": DECLARED * MIB,
        "memory_limit_bytes": DECLARED * MIB,
        "cpu_guarantee_cores": cpu,
        "cpu_limit_cores": cpu,
    }
    manifest = {
        "schema_version": 1,
        "study": folder.name,
        "ended_at": "2026-12-01T01:00:00+00:00",
        "parameter_sets": [
            {"id": name, "memory_multiplier": factor, "cpu_multiplier": factor}
            for name, factor in factors.items()
            if name in names
        ],
        "baseline": next(name for name in factors if name in names),
        "agent": agent,
        "order": "interleaved",
        "planned_trials": len(rows),
        "backend": {"backend": "docker", "engine": "docker 28", "enforcement": "hard limit"},
        "tasks": [
            {
                "name": path.name,
                "digest": directory_digest(path),
                "directory": str(path),
                "spec": spec,
            }
            for path in tasks
        ],
    }
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({**manifest, **facts}))
    lines = (json.dumps(row.to_json()) for row in rows)
    (folder / "trials.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder
