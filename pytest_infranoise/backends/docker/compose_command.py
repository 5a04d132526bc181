"""The Compose that is installed: the `docker compose` plugin, or `docker-compose`."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_infranoise.backends.docker.builders import client_environment, end_group
from pytest_infranoise.backends.docker.connection import Endpoint
from pytest_infranoise.backends.docker.failures import one_line
from pytest_infranoise.errors import InfranoiseError, UsageError

_PROBE_SECONDS = 30.0
_CONFIG_SECONDS = 60.0
_TAIL_CHARACTERS = 600


class ComposeError(InfranoiseError):
    """Compose did not do it; the message is the end of what it said, in one line."""


@dataclass(frozen=True, slots=True)
class Compose:
    """One installed Compose, for one engine."""

    command: tuple[str, ...]
    version: str
    endpoint: Endpoint

    def config(self, file: Path, variables: Mapping[str, str]) -> dict[str, Any]:
        """Return a compose file as Compose understands it: resolved, with absolute paths.

        A dollar in a value stands doubled, as in a file.

        Raises:
            ComposeError: it is not valid; the message is Compose's own.
        """
        import yaml

        text = self._run(["-f", str(file), "config"], variables, _CONFIG_SECONDS)
        found: dict[str, Any] = yaml.safe_load(text)
        return found

    def up(self, project: str, file: Path, timeout_seconds: float) -> None:
        """Create and start everything in a file, in the order that it asks for.

        Raises:
            ComposeError: something did not start, or not in time.
        """
        arguments = ["-p", project, "-f", str(file), "up", "-d", "--no-build"]
        self._run(arguments, {}, timeout_seconds)

    def build(self, file: Path, service: str, timeout_seconds: float) -> None:
        """Build one service's image.

        Raises:
            ComposeError: it cannot be built, or not in time.
        """
        arguments = ["-p", "infranoise-build", "-f", str(file), "build", service]
        self._run(arguments, {}, timeout_seconds)

    def _run(
        self, arguments: Sequence[str], variables: Mapping[str, str], timeout_seconds: float
    ) -> str:
        environment = {**client_environment(self.endpoint), **variables}
        environment["COMPOSE_IGNORE_ORPHANS"] = "1"
        try:
            process = subprocess.Popen(
                [*self.command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=environment,
                start_new_session=True,  # a Ctrl-C is ours to handle, and the whole group can end
            )
        except OSError as error:
            raise ComposeError(f"{self.command[0]}: {error.strerror}") from None
        try:
            output, errors = process.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            raise ComposeError(f"no end within {timeout_seconds:g} s") from None
        finally:
            end_group(process)
            process.wait()
        if process.returncode != 0:
            said = one_line(errors or output or f"exit code {process.returncode}")
            raise ComposeError(said[-_TAIL_CHARACTERS:])
        return output


def find_compose(endpoint: Endpoint) -> Compose:
    """Return the Compose that is installed, the plugin before the older program.

    Raises:
        UsageError: there is none.
    """
    for command in (("docker", "compose"), ("docker-compose",)):
        version = _version(command)
        if version is not None:
            return Compose(command, version, endpoint)
    raise UsageError(
        "a task of several containers needs Docker Compose, and neither `docker compose` nor "
        "`docker-compose` works here; install one of them"
    )


def _version(command: tuple[str, ...]) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(
            [*command, "version", "--short"],
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
            env=dict(os.environ),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
