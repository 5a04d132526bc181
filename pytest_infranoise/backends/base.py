"""What a backend offers: the protocol, and the values that cross it.

The rule that every backend keeps: the *provider* failing (no such image, the daemon went away, the
container vanished) is a `SandboxError`; the *command* failing is a value, a `StepResult`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Protocol, Self, runtime_checkable

from pytest_infranoise.model.enforcement import DEFAULT_ENFORCEMENT, Enforcement
from pytest_infranoise.model.install import AgentInstall
from pytest_infranoise.model.outcome import Counters, Ending
from pytest_infranoise.model.resources import Allocation, Capacity
from pytest_infranoise.model.task import PreparedImage, Task
from pytest_infranoise.units import GIB, format_size

LABEL = "pytest-infranoise"
"""Label of every container of ours; its value is the study's id."""
TRIAL_LABEL = "pytest-infranoise.trial"
OWNER_LABEL = "pytest-infranoise.owner"

OUTPUT_TAIL_BYTES = 16 * 1024
"""How much of a step's output is kept: its end."""


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What enforces the limits, as facts for header, verdict and manifest.

    `engine` is name and version for people (`docker 20.10.24`); `engine_id` keys the admission
    budget (two clients of one engine share it); `enforcement` is `hard limit` or `watchdog`;
    `isolation` says in a few words what the sandbox is. `cpus` are the CPUs that a sandbox can be
    bound to, none where it cannot. `has_ceiling` says whether all sandboxes of a study can share a
    memory ceiling, `kills_groups` whether the kernel itself kills a whole sandbox under the
    container policy (`memory.oom.group`). `has_images` says whether tasks run in images of their
    own, `is_isolating` whether a recommendation may rest on what is enforced here (not on a host's
    own file system). `details` goes to the manifest as it is.
    """

    backend: str
    engine: str
    engine_id: str
    cgroup_version: int | None
    enforcement: str
    capacity: Capacity
    isolation: str = ""
    cpus: tuple[int, ...] = ()
    has_ceiling: bool = False
    kills_groups: bool = False
    has_images: bool = True
    is_isolating: bool = True
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


def cannot_install(info: EngineInfo) -> str:
    """Say in one line that a backend without images keeps no installation.

    It would have to run in every trial, within that trial's limits, and so be measured.
    """
    return (
        f"--infra-agent-install: the {info.backend} backend has no images to install into; "
        "install the agent on this host, whose file system every trial sees, or use "
        "--infra-backend=docker"
    )


SHELL = "/bin/sh"
"""The shell of our own steps: by its absolute path, since an agent may have put a name on PATH."""
SYSTEM_FOLDERS = (
    "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
)  # fmt: skip
"""Where programs are looked for that run scripts: in no folder that a task has put on PATH."""
OWN_ENVIRONMENT = {
    "PATH": ":".join(SYSTEM_FOLDERS), "LD_PRELOAD": "", "LD_LIBRARY_PATH": "", "ENV": "",
}  # fmt: skip
"""What a step of our own runs with, whatever the image or the task has set."""
OWN_STEP_SECONDS = 20.0
"""How long a step of our own may take."""


@dataclass(frozen=True, slots=True)
class Placement:
    """What is laid into a sandbox at one path; it belongs to root.

    `source` is a host file or folder, None for a folder without content. `over` says what may lie
    there: `nothing`, so that it is made anew; `image`, made anew too, but over what the image
    itself has there; `all`, over whatever is there. `mode` is that of the target itself, None for
    that of the source. With `is_public` every user can read what a folder holds, and run its
    `script`.
    """

    target: str
    source: Path | None = None
    over: Literal["nothing", "image", "all"] = "nothing"
    mode: int | None = None
    is_public: bool = False
    script: str | None = None

    def mode_of(self, name: str, own: int, *, is_folder: bool) -> int:
        """Return the mode of an entry: `name` is its path below the target, "" the target."""
        if name == "" and self.mode is not None:
            return self.mode
        if not self.is_public:
            return own
        runs = is_folder or name == self.script
        return own | (0o555 if runs else 0o444)


def check_target(placement: Placement) -> None:
    """Refuse a path that nothing can be laid at; the root itself can only be laid over."""
    path = PurePosixPath(placement.target)
    is_root = path == PurePosixPath("/") and placement.over != "all"
    if not path.is_absolute() or is_root or ".." in path.parts:
        raise ValueError(f"not an absolute path below the root: {placement.target!r}")


@dataclass(frozen=True, slots=True)
class Seen:
    """What the task sees of the machine; these are the host's unless something hides them."""

    cpus: int | None = None
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class SandboxRequest:
    """Everything a backend needs to open one sandbox.

    `trial` is unique within the study and names the container. `environment` is set for every
    step; `masked_paths` are host folders that must not be visible inside (local backend).
    `allocation` is what the engine itself is to enforce, `enforcement` how. `ceiling_bytes` is what
    all sandboxes of the study together may use, None for no ceiling of ours. `cpus` are the CPUs
    that the sandbox is bound to, None for all. `placements` are laid in before the first step.
    """

    study: str
    trial: str
    owner: str
    task: Task
    image: PreparedImage
    allocation: Allocation
    environment: Mapping[str, str] = field(default_factory=dict)
    masked_paths: Sequence[Path] = ()
    enforcement: Enforcement = DEFAULT_ENFORCEMENT
    ceiling_bytes: int | None = None
    cpus: tuple[int, ...] | None = None
    placements: Sequence[Placement] = ()


@dataclass(frozen=True, slots=True)
class StepResult:
    """What became of one command.

    `exit_code` follows the shell's convention (128 + signal; 137 after SIGKILL) and is None unless
    `ending` is `exit`. `output` is the tail of stdout and stderr together, decoded as UTF-8 with
    replacement, `output_bytes` how much was printed in all.
    """

    ending: Ending
    exit_code: int | None
    wall_seconds: float
    output: str = ""
    output_bytes: int = 0
    output_truncated: bool = False


@dataclass(frozen=True, slots=True)
class EffectiveLimits:
    """Limits as read back from where they are enforced; None is uncapped, absent is unknown.

    `values` may hold `memory_limit_bytes`, `memory_reservation_bytes` (preferred under pressure),
    `memory_protected_bytes` (never reclaimed), `memory_swap_bytes` (memory plus swap),
    `memory_ceiling_bytes` (the least limit of a cgroup above), `memory_watch_bytes` (a threshold
    that a watch enforces), `cpu_limit_cores`, `cpu_weight`, `storage_limit_bytes` (of what is
    written to disk); `source` says where they were read.
    """

    values: Mapping[str, int | float | None]
    source: str


MAX_COPY_BYTES = 8 * GIB
"""The most that one copy out of a sandbox may hold: a file without content can claim any size."""
MAX_COPY_DEPTH = 100
"""How deep the folders of such a copy may be nested; deeper ones fit no path and no stack."""
TOO_LARGE = (
    f"more than {format_size(MAX_COPY_BYTES)}, or folders that are nested more than "
    f"{MAX_COPY_DEPTH} deep"
)


class Sandbox(Protocol):
    """An open sandbox: held open by a process of ours until `close`, whatever its steps do."""

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
        """Run one command to its end or its deadline; at the deadline everything is killed.

        A background child that holds stdout open does not delay the result. `user` None is root;
        `workdir` None is the image's, which is made again if it is gone. A command that
        does not exist returns 127, one that cannot be executed 126, as from a shell. `tail_bytes`
        is how much of its output is kept.

        Raises:
            SandboxError: the sandbox or its engine is gone.
        """

    def put(self, source: Path, target: str) -> None:
        """Copy a host file to the path `target`, or the contents of a host folder into it.

        The target is removed and made anew as root first, so that nothing the agent left there (a
        symlink, say) can redirect the copy; missing parents are created. Modes are kept, the owner
        is root.

        Raises:
            SandboxError: the sandbox is gone, or its disk is full.
        """

    def place(self, placements: Sequence[Placement]) -> None:
        """Lay files and folders in, one after the other, without any program of the sandbox.

        Links that a step left at a target, or in place of one of the targets' parents that is a
        target itself, are replaced, never followed.

        Raises:
            SandboxError: the sandbox is gone, or its disk is full.
        """

    def read(self, path: str, *, max_bytes: int) -> bytes | None:
        """Return a file's last `max_bytes` bytes, or None if there is no such regular file."""

    def read_folder(self, path: str, max_bytes: Mapping[str, int]) -> Mapping[str, bytes]:
        """Return the last bytes of regular files in a folder, by name; missing ones are absent.

        `max_bytes` says by name how many.
        """

    def get(self, source: str, target: Path) -> None:
        """Copy a file or folder out of the sandbox to the host path `target`.

        Raises:
            FileNotFoundError: nothing is at `source`.
            ValueError: it is larger than `MAX_COPY_BYTES`, deeper than `MAX_COPY_DEPTH`, or a name
                leads out of its folder.
        """

    def kill_all(self) -> None:
        """Kill every process in the sandbox but its holder; return when they are gone."""

    def counters(self, *, expect_kill: bool = False) -> Counters:
        """Read the kernel's counters over the sandbox's whole cgroup subtree.

        `expect_kill` says that something hints at a kill, so a counter that has not risen since the
        last reading is polled for up to 100 ms before it is believed.
        """

    def effective_limits(self) -> EffectiveLimits:
        """Read the limits back from the kernel or the engine."""

    @property
    def workdir(self) -> str:
        """The folder in which steps run that name none."""

    def program(self, name: str) -> str | None:
        """Return where the image has a program in its system folders, None where in none of them.

        What steps have changed since is not looked at.
        """

    def altered(self, paths: Sequence[str]) -> str | None:
        """Return the first of these paths at which a step has changed or removed what was there."""

    def seen(self) -> Seen:
        """Say what a step sees of the machine."""

    def is_alive(self) -> bool:
        """Whether the sandbox still stands (its holder runs)."""

    def close(self) -> None:
        """Remove the sandbox and all that belongs to it; safe to call twice, never raises."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


@runtime_checkable
class HasServices(Protocol):
    """A sandbox with helper services beside it."""

    def service(self, name: str) -> Sandbox:
        """Return the sandbox that is the container of one service.

        Raises:
            SandboxError: there is none of this name, or it has ended.
        """


@runtime_checkable
class HoldsDisk(Protocol):
    """A sandbox that can say what its files take of its engine's disk."""

    def held_disk_bytes(self) -> int | None:
        """Return how much its files take, None where that is unknown; never raises."""


class Backend(Protocol):
    """A provider of sandboxes. One instance per process; `info` and `prepare` run before trials."""

    @property
    def info(self) -> EngineInfo:
        """What enforces the limits here."""

    def check(self, task: Task) -> Sequence[str]:
        """Return warnings about what this backend ignores in a task (each once per study).

        Raises:
            UsageError: the task needs something that this backend does not have, by name.
        """

    def prepare(self, task: Task, progress: Callable[[str], None]) -> PreparedImage:
        """Pull or build what the task needs, once per content, whoever else asks meanwhile.

        Raises:
            UsageError: it cannot be had; the message names the task and ends with the tail of the
                builder's output.
        """

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
        """Return the task's image with an agent installed, once per image and step.

        `study` and `owner` name who to ask about a container that a dead process leaves.

        Raises:
            UsageError: it cannot be installed, or this backend has no images to install into.
        """

    def open(self, request: SandboxRequest) -> Sandbox:
        """Open a sandbox with its limits in force and its holder running.

        Raises:
            SandboxError: the engine did not do it; the cause is `image`, `sandbox_start` or
                `engine`.
        """

    def sweep(self, study: str, owner: str | None = None) -> int:
        """Remove every sandbox of a study (of one owner), and return how many there were.

        Without an owner the study's shared ceiling goes too. Usable from any process and thread,
        also while another is inside a sandbox's method.
        """

    def outage(self) -> str | None:
        """Say in one line why no sandbox can be had here by anybody now; None where one can.

        Asked after a failure, and again while an engine is waited for; takes some seconds at most.
        """

    def close(self) -> None:
        """Release connections."""
