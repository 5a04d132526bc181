"""What scenarios need of a host beyond a shell: programs, swap, a disk that can be full."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from scenario import Scenario

SWAP_MIB = 64


def reason_against(scenario: Scenario, engine: str) -> str | None:
    """Return why an engine on this host cannot play a scenario, None if it can."""
    reason = scenario.reason_against(engine)
    if reason is None and scenario.program is not None:
        reason = _lacks_program(scenario.program, engine)
    for need in scenario.needs:
        reason = reason or _REASONS[need](engine)
    return reason


def _lacks_program(program: str, engine: str) -> str | None:
    if not engine.startswith("docker"):
        return None if shutil.which(program) else f"no {program} on this host"
    # The tests make their images themselves, without a registry.
    return None if program == "python3" else f"no image with {program} without a registry"


def _lacks_swap(engine: str) -> str | None:
    if _has_swap() or os.geteuid() == 0:
        return None
    return "no swap on this host, and no right to make some"


def _lacks_small_disk(engine: str) -> str | None:
    if engine.startswith("docker"):
        return "its storage driver cannot bound a container's disk (overlay2 on ext4)"
    return None if os.geteuid() == 0 else "an ordinary user cannot mount a disk of its own"


_REASONS = {"swap": _lacks_swap, "small disk": _lacks_small_disk}


def _has_swap() -> bool:
    return len(Path("/proc/swaps").read_text().splitlines()) > 1


@contextlib.contextmanager
def swap(folder: Path) -> Iterator[None]:
    """Let the host have swap meanwhile, a small file if it has none."""
    if _has_swap():
        yield
        return
    file = folder / "swap"
    with file.open("wb") as opened:
        os.posix_fallocate(opened.fileno(), 0, SWAP_MIB << 20)
    file.chmod(0o600)
    _run("mkswap", file)
    _run("swapon", file)
    try:
        yield
    finally:
        _run("swapoff", file)
        file.unlink()


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
