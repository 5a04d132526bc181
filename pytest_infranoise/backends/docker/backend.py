"""The Docker Engine as a provider of sandboxes."""

import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

from docker.types import Healthcheck, LogConfig

from pytest_infranoise.backends.base import (
    LABEL,
    OWNER_LABEL,
    TRIAL_LABEL,
    EngineInfo,
    SandboxRequest,
)
from pytest_infranoise.backends.ceilings import share_protection
from pytest_infranoise.backends.docker.compose import ComposeProjects
from pytest_infranoise.backends.docker.compose_sandbox import (
    PROJECT_LABEL,
    ComposeSandbox,
    remove_shared,
)
from pytest_infranoise.backends.docker.connection import CALL_SECONDS, OUTAGE_SECONDS, connect
from pytest_infranoise.backends.docker.failures import (
    TRANSPORT_ERRORS,
    engine_calls,
    explain,
    starting,
)
from pytest_infranoise.backends.docker.images import ImageStore, check_source
from pytest_infranoise.backends.docker.placing import engine_cpus, find_ceilings, parent_name
from pytest_infranoise.backends.docker.pristine import PristineImages, remove
from pytest_infranoise.backends.docker.sandbox import DockerSandbox, lay
from pytest_infranoise.backends.docker.storage import storage_option, storage_problem
from pytest_infranoise.errors import BackendUnavailableError, SandboxError, UsageError
from pytest_infranoise.model.enforcement import Swap
from pytest_infranoise.model.install import AgentInstall
from pytest_infranoise.model.outcome import Cause
from pytest_infranoise.model.resources import Allocation, Capacity
from pytest_infranoise.model.task import PreparedImage, Task
from pytest_infranoise.units import MIB

MINIMUM_MEMORY_BYTES = 6 * MIB
_MINIMUM_START_BYTES = {1: MINIMUM_MEMORY_BYTES, 2: 12 * MIB}
"""The least limit with which a container starts, by cgroup version.

The engine accepts 6 MiB. On version 2 the runtime's first process is charged to the container: with
6 MiB it dies, and with more it was seen to take up to 9 MiB.
"""
MINIMUM_CPU_CORES = 0.01
SHARES_PER_CORE = 1024
"""CPU weight: a guarantee of one core is the engine's default of 1024 shares, others in proportion.

Shares decide only while CPU is contended. On cgroup v2 the engine turns them into `cpu.weight`.
"""
_SHARES_RANGE = (2, 262144)

HOLDER = (
    'exec 3<>/proc/self/fd/0; trap "" TERM INT HUP; while :; do read -r line <&3 & wait $!; done'
)
"""PID 1: ignores the signals that end programs and reaps orphans; only SIGKILL from outside ends
it.

The shell waits for a copy of itself that reads what never comes (its input, opened for writing too,
has no end), so that no program of the image is needed, at the start or later.
"""
FIRST_TO_KILL = 500
"""The container's `oom_score_adj`: all in it goes before any process of the host, and before the
holder where that can be spared."""


class DockerBackend:
    """Containers of one Docker Engine (`base.Backend`).

    Raises:
        BackendUnavailableError: no engine answers, or it cannot limit memory.
        UsageError: the docker command line's context cannot be read.
    """

    def __init__(
        self, environment: Mapping[str, str] = os.environ, *, counters_on_host: bool = True
    ) -> None:
        connection = connect(environment)
        self.client = connection.client
        self.endpoint = connection.endpoint
        self._counters_on_host = counters_on_host
        try:
            facts = self.client.info()
        except TRANSPORT_ERRORS as error:
            raise BackendUnavailableError(f"{self.endpoint}: {explain(error)}") from error
        info = engine_info(facts, str(self.endpoint), connection.notes)
        self._ceilings, problem = find_ceilings(facts, self.endpoint.host)
        self._info = replace(
            info,
            notes=info.notes if problem is None else (*info.notes, problem),
            cpus=engine_cpus(facts, self.endpoint.host),
            has_ceiling=self._ceilings is not None,
        )
        self._has_private_cgroups = self._info.cgroup_version == 2
        self._pristine = PristineImages(self.client)
        self._images = ImageStore(self.client, self.endpoint, self._info.engine_id)
        self._projects = ComposeProjects(self.client, self.endpoint, self._images)

    @property
    def info(self) -> EngineInfo:
        """What enforces the limits: the engine's own facts."""
        return self._info

    def check(self, task: Task) -> Sequence[str]:
        """Return warnings about a task; raises `UsageError` for what cannot be had here."""
        if task.compose is None:
            check_source(task)
        if task.spec.cpu_limit_cores is not None and not self._info.details["cpu_limit"]:
            raise UsageError(
                f"{task.name}: declares cpus, but {self._info.engine} cannot limit CPU here; use "
                "another engine, or remove cpus from the task"
            )
        warnings = [] if task.compose is None else self._projects.check(task)
        if task.storage_bytes is not None and self._storage_problem is not None:
            warnings.append(
                f"[environment] storage: disk space is not limited: {self._storage_problem}"
            )
        return tuple(warnings)

    @cached_property
    def _storage_problem(self) -> str | None:
        """Why the engine cannot limit disk space; asked only where a task declares some."""
        with engine_calls("asking for a disk limit"):
            problem = storage_problem(self.client, self.client.info())
        details = {**self._info.details, "storage_limit": problem is None}
        self._info = replace(self._info, details=details)
        return problem

    def _storage(self, task: Task) -> dict[str, str] | None:
        if task.storage_bytes is None or self._storage_problem is not None:
            return None
        return storage_option(task.storage_bytes)

    def prepare(self, task: Task, progress: Callable[[str], None]) -> PreparedImage:
        """Pull or build the task's image once per content, and those of its services."""
        if task.compose is not None:
            return self._projects.prepare(task, progress)
        return self._images.prepare(task, progress)

    def install(
        self,
        task: Task,
        image: PreparedImage,
        step: AgentInstall,
        progress: Callable[[str], None],
        *,
        study: str,
        owner: str,
    ) -> PreparedImage:
        """Install an agent in a container of the task's image, and keep that as an image."""
        return self._images.installed(
            task,
            image,
            step,
            progress,
            holder=["sh", "-c", HOLDER],
            container_labels={LABEL: study, TRIAL_LABEL: "agent install", OWNER_LABEL: owner},
        )

    def open(self, request: SandboxRequest) -> DockerSandbox | ComposeSandbox:
        """Create and start a container for one trial, with its helper services."""
        parent = self._ceiling(request)
        if request.task.compose is not None:
            sandbox = self._projects.open(
                request,
                main_service(request, self._storage(request.task)),
                labels_of(request),
                cgroup_parent=parent,
                counters_on_host=self._counters_on_host,
                images=self._pristine,
                capacity=self._info.capacity,
            )
            self._share_protection(request)
            return sandbox
        settings = self._container_settings(request, parent)
        container_id = None
        try:
            with starting(f"opening {request.trial}"):
                api: Any = self.client.api
                container_id = api.create_container_from_config(*settings)["Id"]
                lay(self.client, container_id, request.placements)
                api.start(container_id)
            self._share_protection(request)
            return DockerSandbox(
                self.client,
                container_id,
                request.allocation,
                counters_on_host=self._counters_on_host,
                images=self._pristine,
                capacity=self._info.capacity,
            )
        except BaseException:
            if container_id is not None:
                with suppress(*TRANSPORT_ERRORS):
                    remove(self.client, container_id)
            raise

    def _share_protection(self, request: SandboxRequest) -> None:
        if self._ceilings is not None and self._info.cgroup_version == 2:
            share_protection(self._ceilings.folder(request.study))

    def _ceiling(self, request: SandboxRequest) -> str | None:
        """Return the cgroup that the container goes into, with the study's ceiling in force."""
        if self._ceilings is None or request.ceiling_bytes is None:
            return None
        try:
            allow_swap = request.enforcement.swap == "twice"
            self._ceilings.make(request.study, request.ceiling_bytes, allow_swap=allow_swap)
        except OSError as error:
            message = f"docker, opening {request.trial}: no shared ceiling: {error}"
            raise SandboxError(Cause.SANDBOX_START, message) from error
        return parent_name(self._ceilings, request.study)

    def _container_settings(
        self, request: SandboxRequest, parent: str | None
    ) -> tuple[dict[str, Any], str]:
        api = self.client.api
        cpus = request.cpus
        host_config = api.create_host_config(
            **limits(request.allocation, swap=request.enforcement.swap),
            cgroup_parent=parent,
            cpuset_cpus=None if cpus is None else ",".join(map(str, cpus)),
            auto_remove=False,
            restart_policy={"Name": "no"},
            storage_opt=self._storage(request.task),
            network_mode=None if request.task.network else "none",
            log_config=LogConfig(type="none"),
            oom_score_adj=FIRST_TO_KILL,
            cgroupns="private" if self._has_private_cgroups else None,
        )
        config = api.create_container_config(
            request.image.reference,
            command=[],
            entrypoint=["sh", "-c", HOLDER],
            stdin_open=True,
            user="0",
            environment=dict(request.environment),
            working_dir=request.task.workdir,
            labels=labels_of(request),
            healthcheck=Healthcheck(test=["NONE"]),  # its probes would run beside the agent
            host_config=host_config,
        )
        return config, container_name(request)

    def outage(self) -> str | None:
        """Say why the engine does not answer, asked over a connection of its own.

        While it does not, no other call is to wait for it long.
        """
        try:
            self.endpoint.client(timeout_seconds=OUTAGE_SECONDS).close()
        except (*TRANSPORT_ERRORS, OSError, ValueError) as error:
            self.client.api.timeout = OUTAGE_SECONDS
            return f"{self.endpoint} does not answer: {explain(error)}"
        self.client.api.timeout = CALL_SECONDS
        return None

    def sweep(self, study: str, owner: str | None = None) -> int:
        """Remove every container of a study (of one owner); over a connection of its own."""
        labels = [f"{LABEL}={study}"]
        if owner is not None:
            labels.append(f"{OWNER_LABEL}={owner}")
        try:
            self.endpoint.client(timeout_seconds=OUTAGE_SECONDS).close()  # is anybody there?
            with closing(self.endpoint.client()) as client:
                found = client.api.containers(all=True, filters={"label": labels})
                for container in found:
                    remove(client, container["Id"])
                remove_shared(client, *labels)
        except (*TRANSPORT_ERRORS, OSError, ValueError) as error:
            raise SandboxError("engine", f"docker, sweeping {study}: {explain(error)}") from error
        if owner is None and self._ceilings is not None:
            self._ceilings.remove(study)
        return len({item["Labels"].get(PROJECT_LABEL, item["Id"]) for item in found})

    def close(self) -> None:
        """Release connections and shared ceilings."""
        if self._ceilings is not None:
            self._ceilings.close()
        self.client.close()


def labels_of(request: SandboxRequest) -> dict[str, str]:
    """Return the labels by which whatever belongs to a sandbox is found again."""
    return {LABEL: request.study, TRIAL_LABEL: request.trial, OWNER_LABEL: request.owner}


def main_service(request: SandboxRequest, storage: Mapping[str, str] | None) -> dict[str, Any]:
    """Return what a container of ours is given, in the keys of a compose file."""
    settings = limits(request.allocation, swap=request.enforcement.swap)
    if "nano_cpus" in settings:
        settings["cpus"] = settings.pop("nano_cpus") / 1e9
    if storage is not None:
        settings["storage_opt"] = dict(storage)
    if request.cpus is not None:
        settings["cpuset"] = ",".join(map(str, request.cpus))
    if request.task.workdir is not None:
        settings["working_dir"] = request.task.workdir
    return {
        **settings,
        "entrypoint": ["sh", "-c", HOLDER.replace("$", "$$")],
        "command": [],
        "user": "0",
        "init": False,
        "stdin_open": True,
        "oom_score_adj": FIRST_TO_KILL,
        "logging": {"driver": "none"},
    }


def limits(allocation: Allocation, *, swap: Swap = "none") -> dict[str, Any]:
    """Return an allocation as the engine's own settings; what is uncapped is absent.

    Memory plus swap equals memory, so swap is no way out, unless `swap` makes it twice the memory.
    A reservation below what the engine accepts is left out: it reserves nothing anyway.
    """
    settings: dict[str, Any] = {}
    if allocation.memory_limit_bytes is not None:
        settings["mem_limit"] = allocation.memory_limit_bytes
        settings["memswap_limit"] = allocation.memory_limit_bytes * (2 if swap == "twice" else 1)
    if allocation.memory_reservation_bytes >= MINIMUM_MEMORY_BYTES:
        settings["mem_reservation"] = allocation.memory_reservation_bytes
    if allocation.cpu_limit_cores is not None:
        settings["nano_cpus"] = round(allocation.cpu_limit_cores * 1e9)
    if allocation.cpu_guarantee_cores is not None:
        shares = round(allocation.cpu_guarantee_cores * SHARES_PER_CORE)
        settings["cpu_shares"] = min(max(shares, _SHARES_RANGE[0]), _SHARES_RANGE[1])
    return settings


def container_name(request: SandboxRequest) -> str:
    """Return a name that says whose container it is, and is free whatever was left behind."""
    words = re.sub(r"[^A-Za-z0-9_.-]+", "-", request.trial).strip("-.")[-80:]
    return f"infranoise-{words}-{secrets.token_hex(4)}"


def engine_info(facts: Mapping[str, Any], endpoint: str, notes: tuple[str, ...]) -> EngineInfo:
    """Return what an engine's own report (`docker info`) says about it.

    Raises:
        BackendUnavailableError: it cannot run Linux containers, or cannot limit memory.
    """
    engine = f"docker {facts['ServerVersion']}"
    if facts.get("OSType") != "linux":
        raise BackendUnavailableError(f"{endpoint}: {engine} runs no Linux containers")
    if not facts.get("MemoryLimit"):
        raise BackendUnavailableError(
            f"{endpoint}: {engine} cannot limit memory: the memory controller is not available to "
            "it (a rootless engine needs it delegated)"
        )
    if not facts.get("SwapLimit"):
        notes += ("the engine cannot limit swap: swap may be a way out of the memory limit",)
    version = int(facts.get("CgroupVersion") or 1)
    return EngineInfo(
        backend="docker",
        engine=engine,
        engine_id=f"docker:{facts.get('ID') or endpoint}",
        cgroup_version=version,
        enforcement="hard limit",
        capacity=Capacity(
            memory_bytes=int(facts["MemTotal"]),
            cpu_cores=float(facts["NCPU"]),
            minimum_memory_bytes=_MINIMUM_START_BYTES[version],
            minimum_cpu_cores=MINIMUM_CPU_CORES,
        ),
        isolation="container",
        notes=notes,
        details={
            "endpoint": endpoint,
            "server_version": facts["ServerVersion"],
            "kernel_version": facts.get("KernelVersion"),
            "operating_system": facts.get("OperatingSystem"),
            "architecture": facts.get("Architecture"),
            "cgroup_driver": facts.get("CgroupDriver"),
            "storage_driver": facts.get("Driver"),
            "storage_folder": facts.get("DockerRootDir"),
            "runtime": facts.get("DefaultRuntime"),
            "swap_limit": bool(facts.get("SwapLimit")),
            "cpu_limit": bool(facts.get("CpuCfsQuota")),
            "security_options": list(facts.get("SecurityOptions") or ()),
        },
    )
