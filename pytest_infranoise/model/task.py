"""A benchmark task as every backend and agent sees it, whatever format it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pytest_infranoise.model.resources import ResourceSpec

Leftovers = Literal["keep", "kill"]
RewardStrategy = Literal["mean", "final"]


@dataclass(frozen=True, slots=True)
class ImageSource:
    """Where a task's image comes from: a name to pull, or a folder with a Dockerfile to build.

    A container backend uses `docker_image` where it is set, also if there is a Dockerfile, and
    builds otherwise; at least one of the two is set for it. The local backend reads the Dockerfile
    (its WORKDIR, ENV and COPY) and ignores names.
    """

    docker_image: str | None = None
    build_context: Path | None = None


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


@dataclass(frozen=True, slots=True)
class PreparedImage:
    """An image that is ready on the engine: `reference` opens it, `digest` names its content.

    `user` is the image's own default user, None for root.

    Crosses process boundaries as builtins (`dataclasses.asdict`).
    """

    reference: str
    digest: str | None = None
    notes: tuple[str, ...] = ()
    user: str | None = None
