"""A benchmark task as every backend and agent sees it, whatever format it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol

from pytest_infranoise.model.outcome import Verdict
from pytest_infranoise.model.resources import ResourceSpec

Leftovers = Literal["keep", "kill"]
RewardStrategy = Literal["mean", "final"]
ImageBuild = Literal["missing", "always", "never"]
"""When a Dockerfile is built although an image is named beside it."""

MAIN_SERVICE = "main"
"""The container of a task that the agent works in; any other is a helper service."""

LOGS_SOURCE = "/infranoise-logs"
"""Stands in compose files for the host folders that other harnesses mount logs from."""


class Grader(Protocol):
    """Judges a task by what its tests print, for formats whose tests write no reward."""

    def grade(self, output: str, proof: str | None) -> Verdict:
        """Return the verdict on one verification.

        Args:
            output: what `test.sh` printed, its end if there was very much.
            proof: the line that shows that the tests' runner could not be had, None for none.
        """


@dataclass(frozen=True, slots=True)
class ImageSource:
    """Where a task's image comes from: a name to pull, or a folder with a Dockerfile to build.

    A container backend uses `docker_image` where it is set, also if there is a Dockerfile, unless
    `build` says otherwise (`missing`: where the name cannot be had), and builds where it is not; at
    least one of the two is set for it. The local backend reads the Dockerfile
    (its WORKDIR, ENV and COPY) and ignores names.
    """

    docker_image: str | None = None
    build_context: Path | None = None
    build: ImageBuild = "never"


@dataclass(frozen=True, slots=True)
class Healthcheck:
    """A shell command that must succeed before an agent starts; times are seconds.

    Failures within the start period do not count; after it `retries` in a row are too many.
    """

    command: str
    interval_seconds: float = 5.0
    timeout_seconds: float = 30.0
    start_period_seconds: float = 0.0
    start_interval_seconds: float = 5.0
    retries: int = 3


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file or folder that a separate verifier gets from where the agent worked.

    It stands at the absolute path `source` in both sandboxes. `exclude` are patterns of names that
    are left out of a folder. `service` is the container that it is taken from.
    """

    source: str
    exclude: tuple[str, ...] = ()
    service: str = MAIN_SERVICE


@dataclass(frozen=True, slots=True)
class CollectCommand:
    """A shell command that is run when the agent has finished, before artifacts are taken.

    `user` None is the image's own.
    """

    command: str
    service: str = MAIN_SERVICE
    timeout_seconds: float = 60.0
    user: str | None = None


@dataclass(frozen=True, slots=True)
class HelperService:
    """A container beside the one that the agent works in; no parameter set scales its limits.

    `cpu_*` None is no quota and no reservation.
    """

    name: str
    memory_limit_bytes: int
    memory_guarantee_bytes: int
    cpu_limit_cores: float | None = None
    cpu_guarantee_cores: float | None = None


@dataclass(frozen=True, slots=True)
class ComposeSource:
    """A compose file that a task's containers come from; messages call it `place`.

    `main` is the service that the agent works in, `helpers` are all others. `variables` are what
    `${VAR}` in the file stands for, on top of this process's own.
    """

    file: Path
    place: str
    main: str = MAIN_SERVICE
    variables: Mapping[str, str] = field(default_factory=dict)
    helpers: tuple[HelperService, ...] = ()


def compose_task_folder(file: Path) -> Path:
    """Return the folder of the task that a compose file belongs to, without symlinks."""
    folder = file.resolve().parent
    return folder.parent if folder.name == "environment" else folder


@dataclass(frozen=True, slots=True)
class SeparateVerifier:
    """A sandbox of its own for the tests.

    `sandbox` says what it is made of (image, resources, variables, network), with the verifier's
    declared resources as its spec. With `has_tests` its image holds `/tests` already.
    """

    sandbox: "Task"
    has_tests: bool = False


@dataclass(frozen=True, slots=True)
class TaskStep:
    """One step of a task that is worked on and verified in several, in one sandbox.

    `tests` are folders whose files lie over one another, the last on top. `files` is a folder that
    is copied into the working folder first; its `setup.sh` is then run. The steps after one whose
    rewards are below `min_rewards` (by name) do not run.
    """

    name: str
    instruction: str
    tests: tuple[Path, ...]
    solution: Path | None = None
    files: Path | None = None
    agent_timeout_seconds: float | None = None
    verifier_timeout_seconds: float = 600.0
    verifier_environment: Mapping[str, str] = field(default_factory=dict)
    agent_user: str | None = None
    verifier_user: str | None = None
    min_rewards: Mapping[str, float] = field(default_factory=dict)
    healthcheck: Healthcheck | None = None
    verifier: SeparateVerifier | None = None
    artifacts: tuple[Artifact, ...] = ()
    collect: tuple[CollectCommand, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """One benchmark task.

    `name` is unique within a study and keys the analysis. `digest` is a content digest of
    everything that can change the outcome. Timeouts are seconds; None means that none is declared.
    `directory`, `instruction`, `solution` and `tests` are None for a task that is a Python test
    (`@pytest.mark.infra`).

    With `steps`, each step's own fields take the place of the task's, and `reward_strategy` says
    whether the reward is the mean over the steps that ran or the last one's. `storage_bytes` is the
    disk space that the task declares; None for none.

    `solution_files` and `test_files` are texts by file name that lie over `solution` and `tests`,
    or stand in their place; `test_script` among them is what runs. With a `grader` the tests'
    output is judged instead of a reward.

    `verifier` is where the tests run, None for the sandbox in which the agent worked; it gets the
    `artifacts`, after the commands of `collect`. With `compose` the task has helper services.

    `files` is a folder whose contents are copied into the working folder of a new sandbox.
    """

    name: str
    digest: str
    spec: ResourceSpec
    image: ImageSource
    directory: Path | None = None
    instruction: str | None = None
    solution: Path | None = None
    tests: Path | None = None
    agent_timeout_seconds: float | None = None
    verifier_timeout_seconds: float = 600.0
    build_timeout_seconds: float = 600.0
    environment: Mapping[str, str] = field(default_factory=dict)
    solution_environment: Mapping[str, str] = field(default_factory=dict)
    verifier_environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None
    agent_user: str | None = None
    verifier_user: str | None = None
    leftovers: Leftovers | None = None
    network: bool = True
    notes: tuple[str, ...] = ()
    storage_bytes: int | None = None
    healthcheck: Healthcheck | None = None
    steps: tuple[TaskStep, ...] = ()
    reward_strategy: RewardStrategy = "mean"
    solution_files: Mapping[str, str] = field(default_factory=dict)
    test_files: Mapping[str, str] = field(default_factory=dict)
    test_script: str = "test.sh"
    grader: Grader | None = None
    verifier: SeparateVerifier | None = None
    artifacts: tuple[Artifact, ...] = ()
    collect: tuple[CollectCommand, ...] = ()
    compose: ComposeSource | None = None
    files: Path | None = None

    def with_build(self, build: ImageBuild) -> "Task":
        """Return the task with its images, a separate verifier's too, built when `build` says."""

        def own(verifier: SeparateVerifier | None) -> SeparateVerifier | None:
            if verifier is None:
                return None
            return replace(verifier, sandbox=verifier.sandbox.with_build(build))

        return replace(
            self,
            image=replace(self.image, build=build),
            verifier=own(self.verifier),
            steps=tuple(replace(step, verifier=own(step.verifier)) for step in self.steps),
        )

    @property
    def sandboxes(self) -> tuple["Task", ...]:
        """What the task's sandboxes are made of: itself, and its separate verifiers."""
        return (self, *(item.sandbox for item in self.verifiers))

    @property
    def verifiers(self) -> tuple[SeparateVerifier, ...]:
        """Every separate verifier, of the task or its steps."""
        own = (self.verifier, *(step.verifier for step in self.steps))
        return tuple(item for item in own if item is not None)


@dataclass(frozen=True, slots=True)
class PreparedImage:
    """An image that is ready on the engine: `reference` opens it, `digest` names its content.

    `user` is the image's own default user, None for root; `entrypoint` its ENTRYPOINT.
    `base_digest` names the image that an agent was installed into, None where none was.

    Crosses process boundaries as builtins (`dataclasses.asdict`).
    """

    reference: str
    digest: str | None = None
    notes: tuple[str, ...] = ()
    user: str | None = None
    base_digest: str | None = None
    entrypoint: tuple[str, ...] = ()
