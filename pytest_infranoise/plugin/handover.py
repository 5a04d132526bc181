"""What the controller decides once and hands to every worker, as one JSON text."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

from pytest_infranoise.model.task import PreparedImage
from pytest_infranoise.plugin.distribution import WORKER_INPUT

IDENTITY = pytest.StashKey["Handover"]()


@dataclass(frozen=True, slots=True)
class Handover:
    """The identity of a run, and what was resolved before it began.

    `backend` is the name that `auto` resolved to, None while nobody has asked (a run without sweep
    options that may hold marked tests). `task_names` maps a task folder to the task's name in the
    study, `images` a task's name to its prepared image, `task_files` the folder of a task in the
    suite's own format to the file that describes it, `left_out` a task that the study leaves out to
    the reason, `excluded` the folder of one that the user leaves out to its name. `flags` is the
    folder in which the controller tells workers to stop. `recorded` is the study's progress as
    `progress.nested` writes it, `extended_from` the numbers of samples after which the study was
    made longer, `options` what a study that goes on takes over from its earlier sessions (by
    attribute of `config.option`; a worker reads the command line again and nothing else).
    """

    study: str
    seed: int
    flags: Path
    backend: str | None = None
    task_names: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, PreparedImage] = field(default_factory=dict)
    task_files: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    excluded: Mapping[str, str] = field(default_factory=dict)
    recorded: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    extended_from: tuple[int, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_text(self) -> str:
        """Return the handover as text, since only exact builtins reach a worker."""
        return json.dumps({**asdict(self), "flags": str(self.flags)})

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read what `to_text` wrote."""
        values: dict[str, Any] = json.loads(text)
        values["flags"] = Path(values["flags"])
        values["extended_from"] = tuple(values["extended_from"])
        values["images"] = {
            name: PreparedImage(
                **{**image, **{key: tuple(image[key]) for key in ("notes", "entrypoint")}}
            )
            for name, image in values["images"].items()
        }
        return cls(**values)


def identity_of(config: pytest.Config) -> Handover:
    """Return who this run is: as received from the controller, or made here, once."""
    if IDENTITY not in config.stash:
        received = getattr(config, "workerinput", {}).get(WORKER_INPUT)
        config.stash[IDENTITY] = (
            new_identity() if received is None else Handover.from_text(received)
        )
    return config.stash[IDENTITY]


def new_identity() -> Handover:
    """Return the identity of a new study."""
    from pytest_infranoise.admission import default_directory
    from pytest_infranoise.study.writer import new_study_id

    study = new_study_id()
    seed = int.from_bytes(os.urandom(4), "big")
    return Handover(study=study, seed=seed, flags=default_directory() / f"run-{study}")
