"""Where the engine puts containers on this host: shared ceilings, and its CPUs."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_infranoise.backends.ceilings import CeilingPlace, Ceilings, SliceCeilings
from pytest_infranoise.backends.cgroup_paths import find_hierarchies

_NO_CEILING = "no shared memory ceiling over all trials"


def find_ceilings(facts: Mapping[str, Any], host: str) -> tuple[Ceilings | None, str | None]:
    """Return the ceilings that can be put over containers, or None and a note that says why.

    `facts` are the engine's own report, `host` is where it answers.
    """
    problem = _why_elsewhere(facts, host)
    if problem is not None:
        return None, f"{_NO_CEILING}: {problem}"
    trees = find_hierarchies()
    if trees is None or trees.version != int(facts.get("CgroupVersion") or 1):
        return None, f"{_NO_CEILING}: the engine's cgroups are not visible here"
    place = CeilingPlace(trees.version, trees.memory, trees.others)
    by_systemd = facts.get("CgroupDriver") == "systemd"
    ceilings = SliceCeilings(place) if by_systemd else Ceilings(place)
    try:
        ceilings.try_out()
    except OSError as error:
        return None, f"{_NO_CEILING}: {error.strerror or error}"
    return ceilings, None


def parent_name(ceilings: Ceilings, study: str) -> str:
    """Return a ceiling as the engine's `cgroup_parent`: a slice, or a path from the tree's root."""
    name = ceilings.name(study)
    return name if isinstance(ceilings, SliceCeilings) else f"/{name}"


def _why_elsewhere(facts: Mapping[str, Any], host: str) -> str | None:
    is_here = facts.get("Name") == socket.gethostname()
    is_here &= facts.get("KernelVersion") == os.uname().release
    if not (host.startswith("unix://") and is_here):
        return "the engine runs on another machine than this process"
    if any("rootless" in str(option) for option in facts.get("SecurityOptions") or ()):
        return "a rootless engine keeps its own cgroups"
    return None


def engine_cpus(facts: Mapping[str, Any], host: str) -> tuple[int, ...]:
    """Return the CPUs that a container can be bound to; none where the engine cannot do it."""
    number = int(facts["NCPU"])
    if not facts.get("CPUSet", True):
        return ()
    if _why_elsewhere(facts, host) is None:
        online = _online_cpus()
        if len(online) == number:
            return online
    return tuple(range(number))


def _online_cpus() -> tuple[int, ...]:
    try:
        text = Path("/sys/devices/system/cpu/online").read_text(encoding="ascii")
        return parse_cpus(text)
    except (OSError, ValueError):
        return ()


def parse_cpus(text: str) -> tuple[int, ...]:
    """Read a list of CPUs as the kernel writes it.

    >>> parse_cpus("0-2,5")
    (0, 1, 2, 5)
    """
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return tuple(cpus)
