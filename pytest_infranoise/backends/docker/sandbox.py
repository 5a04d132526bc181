"""One open container."""

import logging
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import IO, Any

from docker import DockerClient
from docker.errors import NotFound

from pytest_infranoise.backends.base import (
    LABEL,
    MAX_COPY_BYTES,
    OUTPUT_TAIL_BYTES,
    OWN_ENVIRONMENT,
    OWN_STEP_SECONDS,
    SHELL,
    EffectiveLimits,
    Placement,
    Seen,
    StepResult,
    check_target,
)
from pytest_infranoise.backends.cgroup import CgroupFiles, read_counters, read_limits
from pytest_infranoise.backends.cgroup_paths import ceiling_of, ceiling_was_reached
from pytest_infranoise.backends.docker import copying
from pytest_infranoise.backends.docker.counters import (
    FETCH_SCRIPT,
    find_on_host,
    memory_available,
    parse_fetched,
)
from pytest_infranoise.backends.docker.deaths import Holder, remembered_death
from pytest_infranoise.backends.docker.execution import ExecOutcome, ExecRequest, run_exec
from pytest_infranoise.backends.docker.failures import (
    TRANSPORT_ERRORS,
    engine_calls,
    explain,
    is_gone,
)
from pytest_infranoise.backends.docker.kernel_log import (
    LoggedKill,
    counts_as_the_machine,
    logged_kills,
)
from pytest_infranoise.backends.docker.killing import (
    KILL_COMMAND,
    kill_by_engine,
    kill_from_host,
)
from pytest_infranoise.backends.docker.placing import parse_cpus
from pytest_infranoise.backends.docker.pristine import PristineImages, is_regular, remove, stat
from pytest_infranoise.backends.docker.storage import OPTION
from pytest_infranoise.closing import Closing
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import Cause, Counters, Ending
from pytest_infranoise.model.resources import Allocation, Capacity

_NOTHING_THERE = ("too many links", "not a directory")
"""What an engine says of a path through a loop of symlinks or a file; an agent can leave them."""

_HOLDER_SCORE = "0"
_KILL_COUNT_SECONDS = 0.1
_KILL_COUNT_PAUSE_SECONDS = 0.005
_FINAL_STATE_SECONDS = 5.0
_REMOVED = 2
_KILL_SECONDS = 3.0

_log = logging.getLogger(__name__)


class DockerSandbox(Closing):
    """A running container with its limits in force (`base.Sandbox`).

    No program of the container is used but to read counters that cannot be read elsewhere:
    `counters_on_host=False` does so, and kills by the engine, even where the host's files could be
    read. Without `images` nothing is known of what the image itself holds. `capacity` is the
    engine's.
    """

    def __init__(
        self,
        client: DockerClient,
        container_id: str,
        allocation: Allocation,
        *,
        counters_on_host: bool = True,
        images: PristineImages | None = None,
        capacity: Capacity | None = None,
    ) -> None:
        self.container_id = container_id
        self._client = client
        self._allocation = allocation
        self._images = images or PristineImages(client)
        self._capacity = capacity
        self._facts = self._inspect()
        pid = int(self._facts["State"]["Pid"])
        self._paths = find_on_host(pid, container_id) if counters_on_host else None
        self._holder = Holder(pid, is_here=self._paths is not None)
        self._cgroup = self._cgroup_number()
        self._last = Counters()
        self._is_silent = False
        self._closed = False
        self._spare_holder()

    def _spare_holder(self) -> None:
        """Let the kernel take any step before the holder, where this host may say so.

        The whole container is its first choice; where memory is full of files, all processes are
        small, and the holder would be as good a victim as any.
        """
        if self._holder.is_here and self._facts["HostConfig"].get("OomScoreAdj"):
            with suppress(OSError):
                path = Path(f"/proc/{self._holder.pid}/oom_score_adj")
                path.write_text(_HOLDER_SCORE, encoding="ascii")

    def _cgroup_number(self) -> int | None:
        """What tells the cgroup from a later one of the same name; None if it cannot be read."""
        folder = None if self._paths is None else self._paths.memory_path
        try:
            return None if folder is None else folder.stat().st_ino
        except OSError:
            return None

    def _inspect(self) -> dict[str, Any]:
        with engine_calls("inspecting the container"):
            api: Any = self._client.api
            inspected: dict[str, Any] = api.inspect_container(self.container_id)
        return inspected

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = self._inspect()["State"]
        return state

    # --- steps -----------------------------------------------------------------------------------

    def exec(
        self,
        command: Sequence[str],
        *,
        timeout_seconds: float | None = None,
        environment: Mapping[str, str] | None = None,
        workdir: str | None = None,
        user: str | None = None,
        tail_bytes: int = OUTPUT_TAIL_BYTES,
    ) -> StepResult:
        """Run one command to its end or its deadline (`base.Sandbox.exec`).

        On engines that wait for a finished command's output to be closed (20.10 does, for up to
        4 seconds), a step right after one that left a background child on its output may be
        reported late by as much.
        """
        request = ExecRequest(
            command, timeout_seconds, environment or {}, workdir, user, tail_bytes
        )
        outcome = self._run(request, kill=self.kill_all)
        if outcome.lacks_folder and workdir in (None, self.workdir):
            self.place([Placement(self.workdir, over="all")])
            outcome = self._run(request, kill=self.kill_all)
        elif outcome.has_no_format(command):
            request = replace(request, command=[SHELL, *command])
            outcome = self._run(request, kill=self.kill_all)
        return StepResult(
            ending=Ending.DEADLINE if outcome.exit_code is None else Ending.EXIT,
            exit_code=outcome.exit_code,
            wall_seconds=outcome.wall_seconds,
            output=outcome.output.text,
            output_bytes=outcome.output.total_bytes,
            output_truncated=outcome.output.is_truncated,
        )

    def _run(self, request: ExecRequest, kill: Callable[[], None] | None = None) -> ExecOutcome:
        return run_exec(self._client, self.container_id, request, holder=self._holder, kill=kill)

    def kill_all(self) -> None:
        """Kill every process but the holder, and wait until all are gone.

        Where that cannot be had the container itself is ended.
        """
        if not self._kill_from_host():
            with engine_calls("ending what is left"):
                self._kill_by_engine()
        if self._holder.is_ending():
            raise SandboxError(Cause.SANDBOX_LOST, "the container is gone")

    def _kill_from_host(self) -> bool:
        folder = None if self._paths is None else self._paths.memory_path
        return folder is not None and kill_from_host(folder, self._holder.pid)

    def _kill_by_engine(self) -> None:
        means = (
            lambda: self._run_inside(KILL_COMMAND, seconds=_KILL_SECONDS),
            lambda: self._run_beside(KILL_COMMAND[-1], pid_mode=f"container:{self.container_id}"),
        )
        if kill_by_engine(self._client, self.container_id, means):
            return
        _log.warning("container %s: processes outlive SIGKILL; it is ended", self.container_id)
        api: Any = self._client.api
        api.kill(self.container_id)

    def _run_inside(
        self, command: Sequence[str], *, seconds: float = OWN_STEP_SECONDS, tail_bytes: int = 4096
    ) -> ExecOutcome:
        """Run a short command of ours as root, with a time limit, trusting no answer."""
        request = ExecRequest(command, seconds, OWN_ENVIRONMENT, workdir="/", tail_bytes=tail_bytes)
        return self._run(request)

    def _run_beside(self, script: str, **shared: Any) -> bool:
        return self._images.run(self._facts["Image"], script, self._labels, **shared)

    @property
    def _labels(self) -> dict[str, str]:
        """The labels by which a container of ours is found, whatever becomes of this process."""
        labels = self._facts["Config"]["Labels"] or {}
        return {name: value for name, value in labels.items() if name.startswith(LABEL)}

    # --- files -----------------------------------------------------------------------------------

    def put(self, source: Path, target: str) -> None:
        """Copy a host file, or a folder's contents, to a path made anew (`base.Sandbox.put`)."""
        self.place([Placement(target, source)])

    def place(self, placements: Sequence[Placement]) -> None:
        """Lay files and folders in by one archive of the engine (`base.Sandbox.place`)."""
        with copying.temporary_archive() as archive, engine_calls(_words(placements)):
            packing = copying.Packing(archive)
            for item in placements:
                packing.add(item, self._below(item), wipes=self._wipes(item))
            packing.finish()
            self._client.api.put_archive(self.container_id, "/", archive)

    def _below(self, placement: Placement) -> bytes | None:
        if placement.over != "image":
            return None
        return self._images.folder(self._facts["Image"], placement.target, self._labels)

    def _wipes(self, placement: Placement) -> bool:
        """Whether the archive itself is to clear the target; a volume there is cleared beside it.

        The volume's mount cannot be replaced, but whoever shares it can empty it.
        """
        check_target(placement)
        if placement.over == "all":
            return False
        target = PurePosixPath(placement.target)
        volumes = [str(item["Destination"]) for item in self._facts["Mounts"]]
        inside = [path for path in volumes if PurePosixPath(path).is_relative_to(target)]
        for path in inside:
            script = f"cd {shlex.quote(path)} && rm -rf ./* ./.[!.]* ./..?*"
            if not self._run_beside(script, volumes_from=[self.container_id]):
                raise SandboxError(Cause.ENGINE, f"docker: the volume {path} could not be emptied")
        return not inside

    def read(self, path: str, *, max_bytes: int) -> bytes | None:
        """Return a file's last `max_bytes` bytes, or None if there is no such regular file."""
        with engine_calls(f"reading {path}"):
            found = stat(self._client, self.container_id, path)
        if found is None:
            self._require_there()
            return None
        if not is_regular(found) or found["size"] > MAX_COPY_BYTES:
            return None
        try:
            with self._archive(found["path"]) as archive:
                return copying.end_of_file(archive, max_bytes)
        except (FileNotFoundError, ValueError):  # a step has changed it meanwhile
            return None

    def read_folder(self, path: str, max_bytes: Mapping[str, int]) -> Mapping[str, bytes]:
        """Return the ends of files in a folder by one archive (`base.Sandbox.read_folder`)."""
        try:
            with self._archive(path, copying.MAX_SEARCHED_BYTES) as archive:
                return copying.ends_of_files(archive, max_bytes)
        except FileNotFoundError:
            return {}
        except ValueError:  # a step has left very much there
            ends = {
                name: self.read(f"{path}/{name}", max_bytes=max_bytes[name]) for name in max_bytes
            }
            return {name: end for name, end in ends.items() if end is not None}

    @contextmanager
    def _archive(self, path: str, most: int | None = None) -> Iterator[IO[bytes]]:
        """What is at a path.

        Raises:
            FileNotFoundError: nothing is.
            ValueError: it is too much.
        """
        with copying.temporary_archive() as archive:
            try:
                api: Any = self._client.api
                chunks, _ = api.get_archive(self.container_id, path)
                with closing(chunks):
                    copying.spool(chunks, archive, most)
            except NotFound as error:
                self._require_there()
                raise FileNotFoundError(f"{path}: no such file in the sandbox") from error
            except TRANSPORT_ERRORS as error:
                if any(words in str(error) for words in _NOTHING_THERE):
                    raise FileNotFoundError(f"{path}: no such file in the sandbox") from error
                cause = Cause.SANDBOX_LOST if is_gone(error) else Cause.ENGINE
                raise SandboxError(cause, f"docker, copying {path}: {explain(error)}") from error
            yield archive

    def _require_there(self) -> None:
        if not self.is_alive():
            raise SandboxError(Cause.SANDBOX_LOST, "the container is gone")

    def get(self, source: str, target: Path) -> None:
        """Copy a file or folder out to the host path `target`; links and devices are left out."""
        with self._archive(source) as archive:
            copying.unpack(archive, target)

    @property
    def workdir(self) -> str:
        """The image's working folder, or the task's own."""
        return str(self._facts["Config"].get("WorkingDir") or "/")

    def program(self, name: str) -> str | None:
        """Return where the image has a program in its system folders."""
        with engine_calls("looking at the image"):
            return self._images.program(self._facts["Image"], name, self._labels)

    def altered(self, paths: Sequence[str]) -> str | None:
        """Return the first path that differs from the image, by the engine's own comparison."""
        with engine_calls("comparing with the image"):
            api: Any = self._client.api
            changes = {item["Path"]: item["Kind"] for item in api.diff(self.container_id) or ()}
            for path in paths:
                names = self._images.names_of(self._facts["Image"], path, self._labels)
                if any(_is_changed(name, changes) for name in names):
                    return path
        return None

    def seen(self) -> Seen:
        """Say what a step sees of the engine's host."""
        cpus = parse_cpus(self._facts["HostConfig"].get("CpusetCpus") or "")
        capacity = self._capacity
        if capacity is None:
            return Seen()
        available = memory_available() if self._holder.is_here else None
        return Seen(len(cpus) or int(capacity.cpu_cores), capacity.memory_bytes, available)

    # --- facts -----------------------------------------------------------------------------------

    def counters(self, *, expect_kill: bool = False) -> Counters:
        """Read the kernel's counters (`base.Sandbox.counters`).

        They come from the host's cgroup files where the engine runs on this host, else from inside
        the container. When the container has ended, its cgroup is gone with it, and what is left
        are the kernel's log and, as the last hint, the engine's OOMKilled flag or news of a kill.
        """
        before = self._last.oom_kills
        reading = self._read_counters()
        until = time.monotonic() + (_KILL_COUNT_SECONDS if expect_kill else 0.0)
        while reading.oom_kills is not None and reading.oom_kills <= (before or 0):
            if time.monotonic() >= until:
                break
            time.sleep(_KILL_COUNT_PAUSE_SECONDS)
            reading = self._read_counters()
        if reading.oom_kills is None:
            return self._hint()
        self._last = reading
        if reading.oom_kills and self._holder.is_ending():
            with suppress(SandboxError):
                death = remembered_death(self._client, self.container_id)
                return replace(reading, took_holder=death.by_kill)
        return reading

    def _read_counters(self) -> Counters:
        files = self._files()
        if files is None:
            return Counters()
        reading = read_counters(files, self._allocation.memory_limit_bytes)
        if self._paths is None and reading.source is not None:
            return replace(reading, source=f"{reading.source} inside the container")
        return reading

    def _files(self) -> CgroupFiles | None:
        if self._paths is not None:
            # A restarted container counts from 0 in a cgroup of the same name.
            return self._paths if self._cgroup_number() == self._cgroup else None
        if self._is_silent:
            return None
        try:
            outcome = self._run_inside((SHELL, "-c", FETCH_SCRIPT), tail_bytes=256 * 1024)
        except SandboxError:
            return None
        # A shell that does not answer is asked once: every reading would take as long.
        self._is_silent = outcome.exit_code is None
        return parse_fetched(outcome.output.text)

    def _hint(self) -> Counters:
        """What can still be said when the counter cannot be read any more."""
        with suppress(SandboxError):
            state = self._final_state()
            if state["Running"]:
                return Counters()
            if kills := logged_kills(self.container_id):
                return self._killed_as_logged(kills)
            if self._flag_means_us():
                death = remembered_death(self._client, self.container_id)
                if state["OOMKilled"]:
                    return self._killed_as_told("docker State.OOMKilled", death.by_kill)
                if death.killed_at is not None:  # it was told after the flag could be set
                    return self._killed_as_told("docker oom event", death.by_kill)
        return Counters()

    def _final_state(self) -> dict[str, Any]:
        """The engine's view; where this host knows of the end already, once the engine does too."""
        until = time.monotonic() + _FINAL_STATE_SECONDS
        state = self._state()
        while state["Running"] and state["Pid"] == self._holder.pid and self._holder.is_ending():
            if time.monotonic() >= until:
                break
            time.sleep(_KILL_COUNT_PAUSE_SECONDS)
            state = self._state()
        return state

    def _flag_means_us(self) -> bool:
        """Whether nobody else's kill can have set the engine's flag or made its event.

        At a kill by a ceiling above, both are there for every container below, idle ones too.
        """
        return self._paths is not None and not ceiling_was_reached(self._paths)

    def _killed_as_logged(self, kills: Sequence[LoggedKill]) -> Counters:
        capped = self._allocation.memory_limit_bytes is not None
        took_holder: bool | None = self._holder.pid in {kill.pid for kill in kills}
        if not (self._holder.is_here and counts_as_the_machine()):
            took_holder = remembered_death(self._client, self.container_id).by_kill
        return Counters(
            oom_kills=max(len(kills), self._last.oom_kills or 0),
            limit_reached=capped and any(kill.by_own_limit for kill in kills),
            memory_peak_bytes=self._last.memory_peak_bytes,
            took_holder=took_holder,
            source="kernel log",
        )

    def _killed_as_told(self, source: str, took_holder: bool | None) -> Counters:
        capped = self._allocation.memory_limit_bytes is not None
        # Version 1 tells the engine of kills at the group's own limit only; version 2 of all.
        own = self._paths is not None and self._paths.version == 1
        reached = True if own or self._last.limit_reached else None
        return Counters(
            oom_kills=max(1, self._last.oom_kills or 0),
            limit_reached=reached if capped else False,
            memory_peak_bytes=self._last.memory_peak_bytes,
            took_holder=took_holder,
            source=source,
        )

    def effective_limits(self) -> EffectiveLimits:
        """Return the kernel's values, and the engine's where the kernel cannot be read."""
        config = self._facts["HostConfig"]
        values: dict[str, int | float | None] = {
            "memory_limit_bytes": config["Memory"] or None,
            "memory_reservation_bytes": config["MemoryReservation"] or None,
            "memory_swap_bytes": config["MemorySwap"] or None,
            "cpu_limit_cores": config["NanoCpus"] / 1e9 or None,
            "cpu_weight": config["CpuShares"] or None,
        }
        if size := (config.get("StorageOpt") or {}).get(OPTION):
            values["storage_limit_bytes"] = int(size)
        files = self._files()
        if files is None:
            return EffectiveLimits(values, "docker inspect")
        kernel = read_limits(files)
        if self._paths is not None:
            values["memory_ceiling_bytes"] = ceiling_of(self._paths)
        return EffectiveLimits({**values, **kernel.values}, f"{kernel.source}, docker inspect")

    def held_disk_bytes(self) -> int | None:
        """Return how much its writable layer takes (`base.HoldsDisk`); unknown with volumes."""
        if self._facts["Mounts"]:
            return None
        chosen = {"id": self.container_id}
        try:
            with engine_calls("asking for the container's size"):
                api: Any = self._client.api
                found = api.containers(all=True, size=True, filters=chosen)
        except SandboxError:
            return None
        held = int(found[0].get("SizeRw") or 0) if found else -1
        return held if held >= 0 else None

    def is_alive(self) -> bool:
        """Whether the container runs."""
        try:
            return not self._closed and bool(self._state()["Running"])
        except SandboxError:
            return False

    def close(self) -> None:
        """Remove the container and its volumes; a failure is logged, and `sweep` comes later."""
        if self._closed:
            return
        self._closed = True
        try:
            remove(self._client, self.container_id)
        except TRANSPORT_ERRORS as error:
            _log.warning("container %s was not removed: %s", self.container_id, explain(error))


def lay(client: DockerClient, container: str, placements: Sequence[Placement]) -> None:
    """Lay files and folders into a container that has not run yet, over what the image has."""
    if not placements:
        return
    with copying.temporary_archive() as archive:
        packing = copying.Packing(archive)
        for item in placements:
            packing.add(item, wipes=False)
        packing.finish()
        client.api.put_archive(container, "/", archive)


def _words(placements: Sequence[Placement]) -> str:
    return f"copying to {', '.join(item.target for item in placements)}"


def _is_changed(path: str, changes: Mapping[str, int]) -> bool:
    """Whether the engine names a file as changed, or a folder above it as removed."""
    above = (str(parent) for parent in PurePosixPath(path).parents)
    return path in changes or any(changes.get(parent) == _REMOVED for parent in above)
