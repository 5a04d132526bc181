"""`infranoise doctor`: what a run would find on this host, before it is started."""

import os
import shutil
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pytest_infranoise.admission import default_budget
from pytest_infranoise.backends.base import EngineInfo
from pytest_infranoise.backends.cgroup_paths import find_cgroup
from pytest_infranoise.backends.registry import AUTO, backend_names, open_backend
from pytest_infranoise.cli.exits import Exit
from pytest_infranoise.cli.output import print_lines
from pytest_infranoise.errors import InfranoiseError
from pytest_infranoise.report.model import Line, one_line
from pytest_infranoise.study.host import capture_host, capture_software
from pytest_infranoise.units import format_cores, format_size

_MESSAGE_CHARACTERS = 600


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Try every backend, opening what it needs, and say which one a run would use and why. "
        "The exit code is 0 if a run would find its backend, with whatever agent, and 1 if a run "
        "with some agent would stop: without a Docker Engine, one with an agent of your own does, "
        "and one with the oracle does not."
    )
    parser.epilog = """\
example:
  infranoise doctor && pytest bench --infra-agent='./solve-with-model.sh'
"""


def run(arguments: Namespace) -> int:
    """Print what is here."""
    print_lines(_versions())
    print_lines(_host())
    for name in backend_names():
        info, problem = _try(name)
        print_lines(_unusable(name, problem) if info is None else _usable(info))
    choices = list(_choices())
    print_lines(choices)
    would_stop = any(line.style == "bad" for line in choices)
    return Exit.FINDING if would_stop else Exit.FINE


def _try(name: str, *, informative_agent: bool = False) -> tuple[EngineInfo | None, str]:
    """Open a backend and close it; returns what it is, or why it is not to be had."""
    try:
        backend = open_backend(name, informative_agent=informative_agent)
    except (InfranoiseError, OSError) as error:
        return None, one_line(str(error), _MESSAGE_CHARACTERS)
    info = backend.info
    backend.close()
    return info, ""


def _versions() -> Iterator[Line]:
    software = capture_software()
    yield Line(
        f"pytest-infranoise {software['pytest_infranoise']}, python {software['python']}", "bold"
    )
    known = software["dependencies"].items()
    yield Line("  " + ", ".join(f"{name} {version or 'missing'}" for name, version in known))


def _host() -> Iterator[Line]:
    host = capture_host()
    swap = "unknown" if host["swap_bytes"] is None else format_size(host["swap_bytes"])
    yield Line(f"host: {host['system']} {host['kernel']} on {host['machine']}", "bold")
    yield Line(
        f"  {host['cpu_usable']} of {host['cpu_count']} CPUs usable, "
        f"{format_size(host['memory_bytes'])} memory, {swap} swap"
    )
    own = find_cgroup()
    if own is None:
        yield Line("  cgroup: no memory controller can be found for this process", "warn")
    else:
        yield Line(f"  cgroup v{own.version}, this process in {own.memory_path}")


def _usable(info: EngineInfo) -> Iterator[Line]:
    cgroup = "no cgroup" if info.cgroup_version is None else f"cgroup v{info.cgroup_version}"
    yield Line(f"{info.backend}: works ({info.engine}, {cgroup}, {info.enforcement})", "good")
    if info.isolation:
        yield Line(f"  isolation: {info.isolation}")
    capacity, budget = info.capacity, default_budget(info.capacity)
    yield Line(
        f"  capacity {format_size(capacity.memory_bytes)}, {format_cores(capacity.cpu_cores)}; "
        f"budget of all trials together {format_size(budget.memory_bytes)}, "
        f"{format_cores(budget.cpu_cores)}"
    )
    yield from _details(info)
    for note in info.notes:
        yield Line(f"  note: {note}", "warn")


def _details(info: EngineInfo) -> Iterator[Line]:
    more: dict[str, Callable[[EngineInfo], Iterable[str]]] = {
        "docker": _docker_details,
        "local": _local_details,
    }
    for text in more[info.backend](info) if info.backend in more else ():
        yield Line(f"  {text}")


def _docker_details(info: EngineInfo) -> Iterator[str]:
    from pytest_infranoise.backends.docker.builders import has_buildx

    yield f"found by {info.details['endpoint']}"
    yield f"storage {info.details['storage_driver']}, cgroup driver {info.details['cgroup_driver']}"
    built = (
        "works" if has_buildx() else "no docker buildx here: Dockerfiles that need it are refused"
    )
    yield f"BuildKit: {built}"


def _local_details(info: EngineInfo) -> Iterator[str]:
    who = "in a user namespace" if info.details["user_namespace"] else "as root"
    yield f"namespaces: mount, PID and IPC namespaces work, {who}"
    base = Path(info.details["base"]).parent
    with suppress(OSError):
        free = shutil.disk_usage(base).free
        yield f"disk for what trials write: {base}, {format_size(free)} free"


def _unusable(name: str, problem: str) -> Iterator[Line]:
    yield Line(f"{name}: does not work", "bad")
    yield Line(f"  {problem}")


def _choices() -> Iterator[Line]:
    """Say what `--infra-backend=auto` takes, by asking the function that chooses."""
    for agent, is_informative in (("the oracle or nop", False), ("any other agent", True)):
        info, problem = _try(AUTO, informative_agent=is_informative)
        if info is None:
            yield Line(f"a run with {agent} would stop: {problem}", "bad")
        else:
            yield Line(f"a run with {agent} would use {info.backend}: {_why(info)}", "bold")


def _why(info: EngineInfo) -> str:
    if info.backend == "local":
        return "no Docker Engine answers, and what it runs is the tasks' own"
    if os.environ.get("DOCKER_HOST") or os.environ.get("DOCKER_CONTEXT"):
        return "the environment names its engine, and it answers"
    return "an engine answers"
