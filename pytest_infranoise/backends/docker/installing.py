"""An agent's install step: run once in a container of an image, and kept as an image of its own."""

import json
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from docker import DockerClient

from pytest_infranoise.backends.docker.failures import TRANSPORT_ERRORS
from pytest_infranoise.backends.docker.pristine import remove
from pytest_infranoise.backends.docker.sandbox import DockerSandbox
from pytest_infranoise.errors import InfranoiseError
from pytest_infranoise.model.install import AgentInstall
from pytest_infranoise.model.outcome import Ending
from pytest_infranoise.model.resources import Allocation

BASE_LABEL = "pytest-infranoise.base"
"""Label of an image with an agent in it: the image that this was installed into."""

SCRIPT = "/infranoise/install.sh"
_UNLIMITED = Allocation(0, None, None, None)
_RUN = """
exec 2>&1
if [ "$(head -c 2 "$1")" = "#!" ]; then chmod +x "$1" && exec "$1"; fi
exec sh -e "$1"
"""


class InstallFailedError(InfranoiseError):
    """The install step did not end with 0; `tail` are the last lines of what it printed."""

    def __init__(self, reason: str, tail: list[str]) -> None:
        super().__init__(reason)
        self.tail = tail


def install(
    client: DockerClient,
    base: str,
    step: AgentInstall,
    *,
    tag: str,
    holder: list[str],
    labels: Mapping[str, str],
    container_labels: Mapping[str, str],
    timeout_seconds: float,
) -> None:
    """Run the step in a container of the image `base` without limits, and commit it as `tag`.

    `holder` is the command that holds the container open. `labels` are the new image's;
    `container_labels` are those of the container, by which it can be found if this process dies,
    and are emptied in the image.

    Raises:
        InstallFailedError: the step failed or ran into its deadline; nothing is committed.
        SandboxError, docker.errors.APIError: the engine failed.
    """
    api: Any = client.api
    own = api.inspect_image(base)["Config"]
    config = api.create_container_config(
        base,
        command=[],
        entrypoint=holder,
        stdin_open=True,
        labels=dict(container_labels),
        healthcheck={"test": ["NONE"]},
        user="0",
    )
    container = api.create_container_from_config(config, _name())["Id"]
    try:
        api.start(container)
        sandbox = DockerSandbox(client, container, _UNLIMITED, counters_on_host=False)
        _run(sandbox, step, timeout_seconds)
        repository, _, version = tag.rpartition(":")
        changes = [*_restored(own), *_labelled({**dict.fromkeys(container_labels, ""), **labels})]
        api.commit(container, repository, version, changes=changes)
    finally:
        with suppress(*TRANSPORT_ERRORS):
            remove(client, container)


def _run(sandbox: DockerSandbox, step: AgentInstall, timeout_seconds: float) -> None:
    for source, target in step.files:
        sandbox.put(source, target)
    with tempfile.TemporaryDirectory(prefix="infranoise-") as folder:
        script = Path(folder) / "install.sh"
        script.write_text(step.script, encoding="utf-8", errors="surrogateescape")
        sandbox.put(script, SCRIPT)
    result = sandbox.exec(["sh", "-c", _RUN, "sh", SCRIPT], timeout_seconds=timeout_seconds)
    if result.ending is Ending.DEADLINE:
        reason = f"no end within build_timeout of {timeout_seconds:g} s"
        raise InstallFailedError(reason, result.output.splitlines())
    if result.exit_code != 0:
        reason = f"the install step returned {result.exit_code}"
        raise InstallFailedError(reason, result.output.splitlines())
    sandbox.exec(["rm", "-f", SCRIPT])
    sandbox.kill_all()


def _restored(own: Mapping[str, Any]) -> list[str]:
    """Return the Dockerfile lines that give the image back what the holder took over."""
    return [
        f"ENTRYPOINT {json.dumps(own.get('Entrypoint') or [])}",
        f"CMD {json.dumps(own.get('Cmd') or [])}",
        f"USER {own.get('User') or 'root'}",
    ]


def _labelled(labels: Mapping[str, str]) -> list[str]:
    return [f"LABEL {json.dumps(name)}={json.dumps(value)}" for name, value in labels.items()]


def _name() -> str:
    return f"infranoise-install-{secrets.token_hex(4)}"
