"""The local backend: trials on this host, without an engine and without images."""

import contextlib
import os
import re
import secrets
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_infranoise.backends.base import EngineInfo, SandboxRequest, cannot_install
from pytest_infranoise.backends.ceilings import CeilingPlace, Ceilings
from pytest_infranoise.backends.dockerfile import Dockerfile, read_dockerfile
from pytest_infranoise.backends.local.capacity import machine_id, own_capacity
from pytest_infranoise.backends.local.cgroups import (
    PREFIX,
    CgroupParent,
    TrialCgroup,
    find_parent,
    restore,
)
from pytest_infranoise.backends.local.channel import Channel, HolderStartError, Plan
from pytest_infranoise.backends.local.hostmounts import read_mounts
from pytest_infranoise.backends.local.inside import syscalls as sc
from pytest_infranoise.backends.local.layers import build_layer, layer_digest, layer_items
from pytest_infranoise.backends.local.limits import PIDS_LIMIT
from pytest_infranoise.backends.local.masks import Masks
from pytest_infranoise.backends.local.rights import explain, is_administrator
from pytest_infranoise.backends.local.sandbox import WATCHDOG, LocalSandbox, Opened, discard
from pytest_infranoise.backends.local.state import (
    RunFolder,
    SandboxState,
    choose_base,
    start_time,
    write_state,
)
from pytest_infranoise.backends.local.view import FilePlan
from pytest_infranoise.backends.local.windows import ROOT, SHARED_MEMORY_BYTES, KernelWindows
from pytest_infranoise.errors import BackendUnavailableError, SandboxError, UsageError
from pytest_infranoise.model.enforcement import DEFAULT_ENFORCEMENT, Enforcement
from pytest_infranoise.model.install import AgentInstall
from pytest_infranoise.model.outcome import Cause
from pytest_infranoise.model.resources import Allocation
from pytest_infranoise.model.task import PreparedImage, Task

_PASSED_ON = re.compile(r"PATH|LANG|LANGUAGE|LC_\w+|TZ")
_DEFAULT_WORKDIR = "/app"
_HOST = "host"
_NAMESPACE_STAGES = ("user namespace", "namespaces")
_OWN_STUDY = "pytest-infranoise-probe"


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What a task's Dockerfile comes to here; no Dockerfile, no file and no layer."""

    dockerfile: Dockerfile | None = None
    digest: str | None = None
    layer: Path | None = None


class LocalBackend:
    """Sandboxes out of namespaces, overlays and cgroups of this host (`base.Backend`).

    `use_cgroups=False` enforces memory limits by the watchdog even where cgroups can be written;
    `as_user=True` takes the way of an ordinary user also as root.

    Raises:
        BackendUnavailableError: this host does not allow it; the message names what is missing.
    """

    def __init__(self, *, use_cgroups: bool = True, as_user: bool | None = None) -> None:
        self._as_user = not is_administrator() if as_user is None else as_user
        self._prepared: dict[tuple[Path, str], _Prepared] = {}
        self._parent: CgroupParent | None = None
        self._ceilings: Ceilings | None = None
        self._run = RunFolder(self._choose_base())
        # Also for who forgets `close`: at the interpreter's end at the latest.
        weakref.finalize(self, self._run.close)
        try:
            self._parent = find_parent() if use_cgroups else None
            if self._parent is not None:
                place = CeilingPlace(self._parent.version, self._parent.folders["memory"])
                self._ceilings = Ceilings(place)
            self._probe()
        except BaseException:
            self.close()
            raise
        self._info = self._describe()

    def _choose_base(self) -> Path:
        try:
            return choose_base()
        except BackendUnavailableError:
            # A folder elsewhere would not help where namespaces are missing as well.
            self._require_namespaces()
            raise

    def _require_namespaces(self) -> None:
        channel = Channel()
        try:
            channel.begin(Plan(self._namespaces(True), Path("/"), "", [], ()))
        except HolderStartError as error:
            if error.stage in _NAMESPACE_STAGES:
                raise BackendUnavailableError(explain(error, self._as_user)) from error
        finally:
            channel.end()

    def _probe(self) -> None:
        """Open a sandbox once, since only that tells whether this host allows it."""
        state = SandboxState(_OWN_STUDY, "probe", str(os.getpid()))
        try:
            opened = self._open(_Wish(state, Allocation(1 << 20, None, None, None)))
        except HolderStartError as error:
            raise BackendUnavailableError(explain(error, self._as_user)) from error
        except OSError as error:
            raise BackendUnavailableError(f"local backend: {error}") from error
        opened.close()

    def _describe(self) -> EngineInfo:
        notes = ["trials share the host's network, its ports included"]
        if self._parent is None:
            notes.append("no cgroup can be written here: CPU limits are not enforced")
            notes.append("no shared memory ceiling over all trials: no cgroup can be written here")
        elif not self._parent.limits_cpu:
            notes.append("the CPU controller is not available here: CPU limits are not enforced")
        isolation = "isolation of effects, not a security boundary"
        if self._as_user:
            isolation += "; system paths read-only (ordinary user)"
        release = os.uname().release
        version = re.match(r"\d+\.\d+", release)
        return EngineInfo(
            backend="local",
            engine=f"local linux {version[0] if version else release}",
            engine_id=f"local-{machine_id()}",
            cgroup_version=None if self._parent is None else self._parent.version,
            enforcement=WATCHDOG if self._parent is None else "hard limit",
            capacity=own_capacity(),
            isolation=isolation,
            cpus=tuple(sorted(os.sched_getaffinity(0))),
            has_ceiling=self._ceilings is not None,
            kills_groups=self._parent is not None and self._parent.version == 2,
            has_images=False,
            is_isolating=False,
            notes=tuple(notes),
            details={
                "kernel": release,
                "user_namespace": self._as_user,
                "base": str(self._run.path),
                "storage_driver": "overlay",
                "pids_limit": None if self._parent is None else PIDS_LIMIT,
                "shared_memory_bytes": SHARED_MEMORY_BYTES,
            },
        )

    @property
    def info(self) -> EngineInfo:
        """What enforces the limits here."""
        return self._info

    # --- images ----------------------------------------------------------------------------------

    def check(self, task: Task) -> Sequence[str]:
        """Return what is ignored of a task's image (`base.Backend.check`)."""
        if task.compose is not None:
            raise UsageError(
                f"task {task.name}: {task.compose.file.name} asks for several containers, which "
                "the local backend does not have; use --infra-backend=docker"
            )
        if any(item.has_tests and not item.sandbox.image.build_context for item in task.verifiers):
            raise UsageError(
                f"task {task.name}: its tests are in the verifier's docker_image, which the local "
                "backend cannot have; use --infra-backend=docker"
            )
        warnings = []
        if task.storage_bytes is not None:
            warnings.append("[environment] storage: disk space is not limited by the local backend")
        prepared = self._read(task)
        if prepared.dockerfile is not None and prepared.dockerfile.base is not None:
            warnings.append("local backend: FROM is ignored, the host's file system is the image")
        elif prepared.dockerfile is None and task.image.docker_image is not None:
            warnings.append(
                "local backend: docker_image is ignored, the host's file system is the image"
            )
        for where, user in (("agent", task.agent_user), ("verifier", task.verifier_user)):
            if self._as_user and user not in (None, "root", "0"):
                raise UsageError(
                    f"task {task.name}: the {where}'s user {user} does not exist for the local "
                    "backend of an ordinary user; run as root or use --infra-backend=docker"
                )
        return warnings

    def prepare(self, task: Task, progress: Callable[[str], None]) -> PreparedImage:
        """Copy what the task's Dockerfile adds into a layer, once per content."""
        prepared = self._lay_down(task, progress)
        return PreparedImage(prepared.digest or _HOST, prepared.digest)

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
        """Refuse: there is no image here to keep an installation in."""
        raise UsageError(cannot_install(self._info))

    def _read(self, task: Task) -> _Prepared:
        context = task.image.build_context
        if context is None:
            return _Prepared()
        known = self._prepared.get((context, task.digest))
        if known is None:
            dockerfile = read_dockerfile(context / "Dockerfile", _host_environment())
            known = _Prepared(dockerfile, layer_digest(dockerfile, layer_items(dockerfile)))
            self._prepared[context, task.digest] = known
        return known

    def _lay_down(self, task: Task, progress: Callable[[str], None]) -> _Prepared:
        prepared = self._read(task)
        dockerfile, digest, context = prepared.dockerfile, prepared.digest, task.image.build_context
        if dockerfile is None or digest is None or context is None or prepared.layer is not None:
            return prepared

        def build(layer: Path) -> None:
            progress(f"{task.name}: copying its files into a layer")
            build_layer(layer, dockerfile, layer_items(dockerfile))

        prepared = replace(prepared, layer=self._run.layer(digest, build))
        self._prepared[context, task.digest] = prepared
        return prepared

    # --- sandboxes -------------------------------------------------------------------------------

    def open(self, request: SandboxRequest) -> LocalSandbox:
        """Open a sandbox with its limits in force and its holder running (`base.Backend.open`)."""
        task = request.task
        try:
            prepared = self._lay_down(task, lambda message: None)
        except (UsageError, OSError) as error:
            raise SandboxError(Cause.IMAGE, f"local backend: {error}") from error
        known = prepared.dockerfile
        default = _DEFAULT_WORKDIR if known is None else str(known.workdir or "/")
        wish = _Wish(
            state=SandboxState(request.study, request.trial, request.owner),
            allocation=request.allocation,
            layer=prepared.layer,
            masked_paths=tuple(request.masked_paths),
            has_network=task.network,
            environment={**({} if known is None else known.environment), **request.environment},
            workdir=task.workdir or default,
            enforcement=request.enforcement,
            ceiling_bytes=request.ceiling_bytes,
            cpus=request.cpus,
        )
        try:
            sandbox = self._open(wish)
        except (HolderStartError, OSError) as error:
            raise SandboxError(Cause.SANDBOX_START, f"local backend: {error}") from error
        try:
            if task.workdir is not None:
                sandbox.make_folder(task.workdir)
            sandbox.place(request.placements)
        except SandboxError:
            sandbox.close()
            raise
        return sandbox

    def _open(self, wish: "_Wish") -> LocalSandbox:
        channel = Channel()  # the interpreter starts while the layers are made
        cgroup, folder = None, None
        try:
            token = f"{_word(wish.state.trial)}-{secrets.token_hex(4)}"
            cgroup = self._cgroup(wish, PREFIX + token)
            paths = () if cgroup is None else tuple(map(str, cgroup.unique_folders))
            state = replace(wish.state, cgroups=paths)
            folder = self._run.new_sandbox(token, state)
            if cgroup is not None:
                cgroup.make(wish.allocation, wish.enforcement, wish.cpus)
            channel.begin(self._plan(wish, folder, cgroup))
            if wish.cpus is not None:
                _bind(channel, wish.cpus)
            _record_holder(folder, state, channel)
        except BaseException:
            discard(channel, cgroup, folder)
            raise
        return LocalSandbox(
            Opened(
                channel=channel,
                folder=folder,
                cgroup=cgroup,
                memory_limit_bytes=wish.allocation.memory_limit_bytes,
                environment={**_host_environment(), **wish.environment},
                workdir=wish.workdir,
                as_user=self._as_user,
                layer=wish.layer,
            )
        )

    def _cgroup(self, wish: "_Wish", name: str) -> TrialCgroup | None:
        parent = self._parent
        if parent is None:
            return None
        if wish.ceiling_bytes is not None and self._ceilings is not None:
            ceiling = self._ceilings.make(
                wish.state.study,
                wish.ceiling_bytes,
                allow_swap=wish.enforcement.swap == "twice",
            )
            parent = parent.under(ceiling)
        return parent.child(name, has_cpus=wish.cpus is not None)

    def _plan(self, wish: "_Wish", folder: Path, cgroup: TrialCgroup | None) -> Plan:
        mounts = read_mounts()
        masks = Masks.of([*wish.masked_paths, self._run.path], mounts)
        files = FilePlan(folder, masks, mounts, self._as_user)
        version, folders = (None, {}) if cgroup is None else (cgroup.version, cgroup.folders)
        windows = KernelWindows(self._as_user, version, folders)
        unique = () if cgroup is None else cgroup.unique_folders
        return Plan(
            namespaces=self._namespaces(wish.has_network),
            folder=folder,
            root=ROOT,
            operations=[*files.make(wish.layer), *windows.make()],
            cgroup_procs=tuple(path / "cgroup.procs" for path in unique),
        )

    def _namespaces(self, has_network: bool) -> int:
        flags = sc.CLONE_NEWNS | sc.CLONE_NEWPID | sc.CLONE_NEWIPC
        if self._as_user:
            flags |= sc.CLONE_NEWUSER
        return flags if has_network else flags | sc.CLONE_NEWNET

    def outage(self) -> str | None:
        """Say why no sandbox can be had on this host: its disk folder or its cgroup is gone."""
        if not os.access(self._run.sandboxes, os.W_OK | os.X_OK):
            return f"local backend: {self._run.sandboxes} is gone or cannot be written any more"
        if self._parent is not None:
            for folder in set(self._parent.folders.values()):
                if not folder.is_dir():
                    return f"local backend: the cgroup {folder} is gone"
        return None

    def sweep(self, study: str, owner: str | None = None) -> int:
        """Remove every sandbox of a study (of one owner), and return how many there were."""
        found = self._run.sweep(study, owner)
        if owner is None and self._ceilings is not None:
            self._ceilings.remove(study)
        return found

    def close(self) -> None:
        """Leave the run folder; the last one out removes it."""
        self._run.close()
        if self._ceilings is not None:
            self._ceilings.close()
        if self._parent is not None:
            restore(self._parent.leaf)


@dataclass(frozen=True, slots=True)
class _Wish:
    """A sandbox to open: what a request comes to on this host."""

    state: SandboxState
    allocation: Allocation
    layer: Path | None = None
    masked_paths: tuple[Path, ...] = ()
    has_network: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str = _DEFAULT_WORKDIR
    enforcement: Enforcement = DEFAULT_ENFORCEMENT
    ceiling_bytes: int | None = None
    cpus: tuple[int, ...] | None = None


def _bind(channel: Channel, cpus: tuple[int, ...]) -> None:
    """Let steps inherit the CPUs, also where no cgroup can hold them there."""
    assert channel.holder_pid is not None
    with contextlib.suppress(OSError):
        os.sched_setaffinity(channel.holder_pid, cpus)


def _record_holder(folder: Path, state: SandboxState, channel: Channel) -> None:
    pid = channel.holder_pid
    started = None if pid is None else start_time(pid)
    if pid is not None and started is not None:
        write_state(folder, replace(state, holder=(pid, started)))


def _word(trial: str) -> str:
    """Return a trial's name as a part of a file name that people can recognise."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", trial).strip("-.")[-40:] or "trial"


def _host_environment() -> dict[str, str]:
    """What every step inherits of this process: the host is the image."""
    return {name: value for name, value in os.environ.items() if _PASSED_ON.fullmatch(name)}
