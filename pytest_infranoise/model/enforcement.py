"""How limits are enforced: what a kill ends, how long an overrun may last, what the task sees.

The method is part of a study as much as its limits are: the same threshold gives other scores when
the first kill ends the trial, or when an overrun is let pass for a while.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.resources import Allocation

OomPolicy = Literal["process", "container"]
"""A kill at the threshold takes one process and the trial goes on, or it ends the trial."""
Swap = Literal["none", "twice"]
"""Memory plus swap equals the threshold, or is twice as much."""
Visible = Literal["host", "limit"]
"""A program in the sandbox sees the host's CPUs, or as many as its CPU limit allows."""

HARD = "hard"
LENIENT = "lenient"
MAXIMUM_LENIENT_SECONDS = 3600.0

THREAD_VARIABLES = (
    "BLIS_NUM_THREADS",
    "CARGO_BUILD_JOBS",
    "CMAKE_BUILD_PARALLEL_LEVEL",
    "GOMAXPROCS",
    "GOTO_NUM_THREADS",
    "JULIA_NUM_THREADS",
    "LOKY_MAX_CPU_COUNT",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
    "NUMEXPR_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "PYTHON_CPU_COUNT",
    "RAYON_NUM_THREADS",
    "TOKIO_WORKER_THREADS",
    "UV_THREADPOOL_SIZE",
    "VECLIB_MAXIMUM_THREADS",
)
"""The variables by which runtimes and libraries are told how many threads to start."""


@dataclass(frozen=True, slots=True)
class Enforcement:
    """One method of enforcing limits.

    `lenient_seconds` is how long without a break a trial may stay above its kill threshold, None
    for a limit that the kernel enforces at once. `reserves` False reserves no guarantee, neither at
    admission nor in the kernel. `preset` names the whole method where it was chosen by name.
    """

    oom_policy: OomPolicy = "process"
    lenient_seconds: float | None = None
    reserves: bool = True
    swap: Swap = "none"
    visible: Visible = "host"
    preset: str | None = None

    @property
    def is_lenient(self) -> bool:
        """Whether a watch, not the kernel, enforces the memory threshold."""
        return self.lenient_seconds is not None

    def words(self, engine: str = "hard limit") -> str:
        """Return the method in words; `engine` is what the engine itself does."""
        parts = [engine if self.lenient_seconds is None else f"lenient {self.lenient_seconds:g} s"]
        parts.append(f"oom policy {self.oom_policy}")
        if not self.reserves:
            parts.append("no reservation")
        if self.swap == "twice":
            parts.append("memory plus swap twice the limit")
        if self.visible == "limit":
            parts.append("tasks see their CPU limit")
        words = ", ".join(parts)
        return words if self.preset is None else f"{words} ({self.preset})"

    def facts(self, engine: str) -> dict[str, Any]:
        """Return what the manifest says of the method, its words included."""
        return {
            "words": self.words(engine),
            "oom_policy": self.oom_policy,
            "lenient_seconds": self.lenient_seconds,
            "reserves": self.reserves,
            "swap": self.swap,
            "visible": self.visible,
            "preset": self.preset,
        }

    def granted(self, allocation: Allocation) -> Allocation:
        """Return what a trial gets: without reservation, nothing is guaranteed to it."""
        if self.reserves:
            return allocation
        return replace(
            allocation,
            memory_guarantee_bytes=0,
            cpu_guarantee_cores=None,
            beside_memory_bytes=0,
            beside_cpu_cores=0.0,
        )

    def for_engine(self, allocation: Allocation) -> Allocation:
        """Return what the engine is to enforce: no memory limit where a watch does."""
        granted = self.granted(allocation)
        return replace(granted, memory_limit_bytes=None) if self.is_lenient else granted


DEFAULT_ENFORCEMENT = Enforcement()
"""The kernel's hard limit; a kill takes one process."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A method that others use, by name; `multipliers` are those of its limits."""

    enforcement: Enforcement
    multipliers: str
    meaning: str


PRESETS: Mapping[str, Preset] = {
    "k8s-1x": Preset(
        Enforcement(oom_policy="container", preset="k8s-1x"),
        "1",
        "Kubernetes 1.28 and later with request and limit 1x: the first kill ends the container",
    ),
    "k8s-1x-3x": Preset(
        Enforcement(oom_policy="container", preset="k8s-1x-3x"),
        "3",
        "the same with request 1x and limit 3x",
    ),
    "harbor-docker": Preset(
        Enforcement(reserves=False, swap="twice", preset="harbor-docker"),
        "1",
        "a limit alone, nothing reserved, memory plus swap twice the limit",
    ),
}


def parse_enforcement(text: str, *, where: str) -> Enforcement:
    """Read `hard`, `lenient:SECONDS` or the name of a preset.

    Raises:
        UsageError: anything else.
    """
    word = text.strip().lower()
    if word == HARD:
        return DEFAULT_ENFORCEMENT
    if word in PRESETS:
        return PRESETS[word].enforcement
    kind, colon, seconds = word.partition(":")
    if kind == LENIENT and colon:
        return Enforcement(lenient_seconds=_lenient_seconds(seconds, text, where))
    raise UsageError(
        f"{where}: {text.strip()!r} is not one of {HARD}, {LENIENT}:SECONDS, {', '.join(PRESETS)}"
    )


def _lenient_seconds(seconds: str, text: str, where: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)s?", seconds.strip(), re.ASCII)
    value = float(match[1]) if match else 0.0
    if not 0 < value <= MAXIMUM_LENIENT_SECONDS:
        raise UsageError(
            f"{where}: {text.strip()!r} must name seconds above 0 and at most "
            f"{MAXIMUM_LENIENT_SECONDS:g}, as in {LENIENT}:5"
        )
    return value


def choose_enforcement(
    method: str,
    *,
    where: str,
    oom_policy: tuple[OomPolicy, str] | None = None,
    visible: Visible = "host",
    admit: tuple[str, str] | None = None,
) -> Enforcement:
    """Return the method that the options come to.

    `oom_policy` and `admit` are values with the place where the user gave them, None where the
    user said nothing of it.

    Raises:
        UsageError: the method cannot be read, or an option contradicts what its preset says.
    """
    chosen = replace(parse_enforcement(method, where=where), visible=visible)
    if chosen.preset is not None:
        if oom_policy is not None and oom_policy[0] != chosen.oom_policy:
            _refuse(where, chosen.preset, f"oom policy {chosen.oom_policy}", oom_policy)
        if admit is not None and not chosen.reserves:
            _refuse(where, chosen.preset, "no reservation", admit)
    elif oom_policy is not None:
        chosen = replace(chosen, oom_policy=oom_policy[0])
    return chosen


def _refuse(where: str, preset: str, says: str, other: tuple[str, str]) -> None:
    value, place = other
    raise UsageError(
        f"{where}={preset} means {says}, which contradicts {place}={value}; leave one of them out"
    )


def preset_multipliers(method: str | None) -> str | None:
    """Return the multipliers that a preset brings along, None for a method that brings none."""
    preset = None if method is None else PRESETS.get(method.strip().lower())
    return None if preset is None else preset.multipliers


def thread_environment(cpu_limit_cores: float | None) -> dict[str, str]:
    """Return the thread variables for a CPU limit: whole cores, rounded up, at least one.

    >>> thread_environment(1.5)["OMP_NUM_THREADS"]
    '2'
    """
    if cpu_limit_cores is None:
        return {}
    threads = str(max(1, math.ceil(cpu_limit_cores)))
    return dict.fromkeys(THREAD_VARIABLES, threads)


def whole_cores(cpu_limit_cores: float | None) -> int | None:
    """Return a CPU limit that is a whole number of cores, else None."""
    if cpu_limit_cores is None or cpu_limit_cores < 1 or cpu_limit_cores != int(cpu_limit_cores):
        return None
    return int(cpu_limit_cores)


def enforcement_words(manifest: Mapping[str, Any]) -> str | None:
    """Return how a study's limits were enforced, None where its manifest does not say.

    A manifest without an entry of its own is of a time when every kill took one process.
    """
    entry, backend = manifest.get("enforcement"), manifest.get("backend")
    if isinstance(entry, Mapping) and isinstance(entry.get("words"), str):
        return str(entry["words"])
    engine = backend.get("enforcement") if isinstance(backend, Mapping) else None
    return None if not engine else DEFAULT_ENFORCEMENT.words(str(engine))


def method_differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return in words how the methods of two studies differ; empty if they are comparable in it.

    `first` and `second` are manifests. Presets differ by what they mean, not by their names.
    """
    words = {"oom_policy": "oom policy", "lenient_seconds": "tolerated overrun in seconds"}
    words |= {"reserves": "guarantee reserved", "swap": "swap", "visible": "what tasks see"}
    ours, theirs = _method(first), _method(second)
    return [
        f"{name}: {_word(ours[key])} and {_word(theirs[key])}"
        for key, name in {"engine": "enforcement", **words}.items()
        if key in ours and key in theirs and ours[key] != theirs[key]
    ]


def _method(manifest: Mapping[str, Any]) -> dict[str, Any]:
    entry, backend = manifest.get("enforcement"), manifest.get("backend")
    engine = backend.get("enforcement") if isinstance(backend, Mapping) else None
    if engine is None:
        return {}
    known = entry if isinstance(entry, Mapping) else DEFAULT_ENFORCEMENT.facts(str(engine))
    return {**known, "engine": engine}


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)
