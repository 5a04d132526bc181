"""What is installed into a task's image before any trial, so that an agent can run in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class AgentInstall:
    """A script that is run once, as root, in a container of each task's image.

    `files` are pairs of a host path and where it is put first. `digest` is one of script and files:
    with the image's own it says what comes out, so that nothing is installed twice.
    """

    script: str
    digest: str
    files: Sequence[tuple[Path, str]] = ()
