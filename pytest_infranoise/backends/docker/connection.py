"""Which Docker Engine to talk to: DOCKER_HOST, the command line's context, the default socket."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker import DockerClient
from docker.tls import TLSConfig

from pytest_infranoise.backends.docker.failures import TRANSPORT_ERRORS, explain
from pytest_infranoise.errors import BackendUnavailableError, UsageError

DEFAULT_SOCKET = "unix:///var/run/docker.sock"

_ANSWER_SECONDS = 5
# Calls that are quick on a healthy engine may take long on a loaded one.
CALL_SECONDS = 120
# An engine that has not said its version by then is taken for one that is away.
OUTAGE_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One place where an engine may answer; `origin` says why it is looked for there.

    `certificates` is a folder with `ca.pem`, `cert.pem` and `key.pem`, or None for no TLS.
    """

    host: str
    origin: str
    certificates: Path | None = None
    verify: bool = True

    def client(self, *, timeout_seconds: float = CALL_SECONDS) -> DockerClient:
        """Connect; raises what the client library raises."""
        arguments: dict[str, Any] = {"use_ssh_client": True} if self.host[:6] == "ssh://" else {}
        if self.certificates is not None:
            arguments["tls"] = self._tls(self.certificates)
        return DockerClient(base_url=self.host, timeout=int(timeout_seconds), **arguments)

    def _tls(self, folder: Path) -> TLSConfig:
        pair = (str(folder / "cert.pem"), str(folder / "key.pem"))
        authority = folder / "ca.pem"
        return TLSConfig(
            client_cert=pair if Path(pair[0]).is_file() else None,
            ca_cert=str(authority) if authority.is_file() else None,
            verify=self.verify,
        )

    def __str__(self) -> str:
        return f"{self.origin} ({self.host})"


@dataclass(frozen=True, slots=True)
class Connection:
    """A client of an engine that has answered, and how it was found; `notes` are for the user."""

    client: DockerClient
    endpoint: Endpoint
    notes: tuple[str, ...] = ()


def is_explicit(environment: Mapping[str, str]) -> bool:
    """Whether the environment itself names an engine, so that no other one will do."""
    return bool(environment.get("DOCKER_HOST") or environment.get("DOCKER_CONTEXT"))


def connect(environment: Mapping[str, str]) -> Connection:
    """Return a connection to the first engine that answers.

    Raises:
        BackendUnavailableError: none does; the message lists what was tried and why it failed.
        UsageError: the named context does not exist or cannot be read.
    """
    failures: list[str] = []
    for endpoint in endpoints(environment):
        try:
            endpoint.client(timeout_seconds=_ANSWER_SECONDS).close()
            client = endpoint.client()
        except (*TRANSPORT_ERRORS, OSError, ValueError) as error:
            failures.append(f"{endpoint}: {explain(error)}")
            continue
        notes = tuple(f"not used: {failure}" for failure in failures)
        return Connection(client, endpoint, notes)
    raise BackendUnavailableError(
        f"no Docker Engine answers; tried {'; '.join(failures)}. "
        "Start one, set DOCKER_HOST, or choose --infra-backend=local"
    )


def endpoints(environment: Mapping[str, str]) -> Iterator[Endpoint]:
    """Yield the places to try, in order.

    What the environment names (DOCKER_HOST, else DOCKER_CONTEXT) is the only place; else the
    command line's current context comes before the default socket.
    """
    host = environment.get("DOCKER_HOST")
    if host:
        yield _from_host(host, environment)
        return
    named = environment.get("DOCKER_CONTEXT")
    folder = config_folder(environment)
    context = named or _current_context(folder)
    if context and context != "default":
        yield _from_context(context, folder)
        if named:
            return
    yield Endpoint(DEFAULT_SOCKET, "default socket")


def config_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the docker command line's configuration."""
    chosen = environment.get("DOCKER_CONFIG")
    if chosen:
        return Path(chosen)
    home = environment.get("HOME")
    return (Path(home) if home else Path.home()) / ".docker"


def _from_host(host: str, environment: Mapping[str, str]) -> Endpoint:
    certificates = environment.get("DOCKER_CERT_PATH")
    verify = bool(environment.get("DOCKER_TLS_VERIFY"))
    if not (certificates or verify):
        return Endpoint(host, "DOCKER_HOST")
    folder = Path(certificates) if certificates else config_folder(environment)
    return Endpoint(host, "DOCKER_HOST", folder, verify)


def _current_context(folder: Path) -> str | None:
    """Return the context that `docker context use` chose; a broken file counts as none."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    name = config.get("currentContext") if isinstance(config, dict) else None
    return name if isinstance(name, str) else None


def _from_context(name: str, folder: Path) -> Endpoint:
    identifier = hashlib.sha256(name.encode()).hexdigest()
    description = folder / "contexts" / "meta" / identifier / "meta.json"
    try:
        settings = json.loads(description.read_text(encoding="utf-8"))["Endpoints"]["docker"]
        host = str(settings["Host"])
        verify = not settings.get("SkipTLSVerify", False)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(
            f"docker context {name!r} cannot be read from {description}; "
            "choose another with `docker context use`, or set DOCKER_HOST"
        ) from None
    certificates = folder / "contexts" / "tls" / identifier / "docker"
    has_tls = certificates.is_dir()
    return Endpoint(host, f"context {name!r}", certificates if has_tls else None, verify)
