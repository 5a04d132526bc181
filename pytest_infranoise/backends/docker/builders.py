"""The two ways to build an image: the engine's classic builder, and the command line's BuildKit."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

import requests
import urllib3
from docker import DockerClient

from pytest_infranoise.backends.docker.connection import Endpoint
from pytest_infranoise.backends.docker.context import DOCKERFILE, pack_context
from pytest_infranoise.backends.docker.dockerfile import buildkit_feature, has_syntax_line
from pytest_infranoise.errors import InfranoiseError, UsageError

Progress = Callable[[str], None]


class BuildFailedError(InfranoiseError):
    """A build did not succeed; the message is the builder's last word."""


@dataclass(frozen=True, slots=True)
class Build:
    """What to build, and how long it may take."""

    context: Path
    tag: str
    labels: Mapping[str, str]
    timeout_seconds: float


Builder = Callable[[Build], Iterator[str]]
"""Builds, yielding the output line by line; raises `BuildFailedError`."""


def builder_for(
    task_name: str, context: Path, client: DockerClient, endpoint: Endpoint
) -> tuple[Builder, tuple[str, ...]]:
    """Return the builder that a task's Dockerfile needs, and notes about the choice.

    Raises:
        UsageError: it needs BuildKit, and the docker command line here has none.
    """
    dockerfile = context / DOCKERFILE
    text = dockerfile.read_text(encoding="utf-8-sig", errors="replace")
    feature = buildkit_feature(text)
    if feature is None and not has_syntax_line(text):
        return (lambda build: build_classic(client, build)), ()
    if has_buildx():
        return (lambda build: build_with_buildkit(endpoint, build)), ()
    if feature is None:
        note = "its `# syntax=` line was not followed: no docker buildx here"
        return (lambda build: build_classic(client, build)), (note,)
    raise UsageError(
        f"{task_name}: {dockerfile} uses {feature}, which only BuildKit builds; "
        "install the docker command line with its buildx plugin, or name a docker_image"
    )


def has_buildx() -> bool:
    """Whether `docker buildx` works here."""
    if shutil.which("docker") is None:
        return False
    command = ["docker", "buildx", "version"]
    try:
        return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def build_classic(client: DockerClient, build: Build) -> Iterator[str]:
    """Build through the engine's API.

    A step that prints nothing can outlast the time allowed, but not by more than that time again:
    the engine is heard of only when something is printed.
    """
    deadline = time.monotonic() + build.timeout_seconds
    with pack_context(build.context) as archive:
        events = client.api.build(
            fileobj=archive,
            custom_context=True,
            dockerfile=DOCKERFILE,
            tag=build.tag,
            labels=dict(build.labels),
            rm=True,
            forcerm=True,
            decode=True,
            timeout=max(1, round(build.timeout_seconds)),
        )
        try:
            for event in events:
                if "error" in event:
                    raise BuildFailedError(str(event["error"]))
                yield from str(event.get("stream", "")).splitlines()
                if time.monotonic() > deadline:
                    raise _too_long(build)
        except (requests.Timeout, urllib3.exceptions.TimeoutError):
            raise _too_long(build) from None
        except requests.ConnectionError as error:
            if "timed out" in str(error).lower():
                raise _too_long(build) from None
            raise
        finally:
            events.close()  # the engine ends a build whose client hangs up


def _too_long(build: Build) -> BuildFailedError:
    return BuildFailedError(f"no end within build_timeout of {build.timeout_seconds:g} s")


def build_with_buildkit(endpoint: Endpoint, build: Build) -> Iterator[str]:
    """Build with the installed docker command line, on the engine that the trials use."""
    command = ["docker", "build", "--progress=plain", "--tag", build.tag]
    for name, value in build.labels.items():
        command += ["--label", f"{name}={value}"]
    command += ["--file", str(build.context / DOCKERFILE), str(build.context)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=client_environment(endpoint),
        start_new_session=True,  # a Ctrl-C is ours to handle, and the whole group can be ended
        text=True,
        errors="replace",
    )
    expired: list[bool] = []

    def expire() -> None:
        expired.append(True)
        end_group(process)

    timer = Timer(build.timeout_seconds, expire)
    timer.start()
    try:
        for line in process.stdout or ():
            yield line.rstrip()
        code = process.wait()
    finally:
        timer.cancel()
        end_group(process)
        process.wait()
    if expired:
        raise _too_long(build)
    if code != 0:
        raise BuildFailedError(f"docker build returned {code}")


def client_environment(endpoint: Endpoint) -> dict[str, str]:
    """Point the command line at our engine, whatever its own context says."""
    environment = {**os.environ, "DOCKER_BUILDKIT": "1", "DOCKER_HOST": endpoint.host}
    environment.pop("DOCKER_CONTEXT", None)
    if endpoint.certificates is not None:
        environment["DOCKER_CERT_PATH"] = str(endpoint.certificates)
        if endpoint.verify:
            environment["DOCKER_TLS_VERIFY"] = "1"
    return environment


def end_group(process: "subprocess.Popen[str]") -> None:
    """Kill a process that leads a group of its own, with all its children, if it still runs."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
