"""What the client library raises, as the provider's failure that it is."""

from collections.abc import Iterator
from contextlib import contextmanager

import requests
import urllib3
from docker.errors import APIError, DockerException, ImageNotFound, NotFound

from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import Cause
from pytest_infranoise.printable import printable

CONFLICT = 409

TRANSPORT_ERRORS = (DockerException, requests.RequestException, urllib3.exceptions.HTTPError)
"""Everything that a call to the engine can raise, `APIError` (a `DockerException`) included."""


def explain(error: BaseException) -> str:
    """Return one line that says what went wrong, the innermost reason of a wrapped error."""
    if isinstance(error, APIError):
        return one_line(str(error.explanation or error))
    innermost: BaseException = error
    while (inner := innermost.__cause__ or innermost.__context__) is not None:
        innermost = inner
    if isinstance(innermost, OSError) and innermost.strerror:
        return one_line(innermost.strerror)
    return one_line(str(innermost) or type(innermost).__name__)


def one_line(text: str) -> str:
    """Return text with every run of white space, line ends too, as one space."""
    return " ".join(printable(text).split())


def is_gone(error: Exception) -> bool:
    """Whether the engine says that the container does not run or does not exist any more.

    One that somebody has paused is still there.
    """
    if isinstance(error, NotFound):
        return True
    if not isinstance(error, APIError):
        return False
    message = str(error.explanation)
    is_conflict = error.status_code == CONFLICT and "is paused" not in message
    # Where it ends while a command is started, the engine calls it an error of its own.
    return is_conflict or "is not running" in message


@contextmanager
def engine_calls(doing: str) -> Iterator[None]:
    """Raise what fails inside as `SandboxError`: `sandbox_lost`, or `engine` for the rest."""
    try:
        yield
    except TRANSPORT_ERRORS as error:
        cause = Cause.SANDBOX_LOST if is_gone(error) else Cause.ENGINE
        raise SandboxError(cause, f"docker, {doing}: {explain(error)}") from error


@contextmanager
def starting(doing: str) -> Iterator[None]:
    """Raise what fails while a container is made: `image`, `sandbox_start` or `engine`."""
    try:
        yield
    except ImageNotFound as error:
        raise SandboxError(Cause.IMAGE, f"docker, {doing}: {explain(error)}") from error
    except APIError as error:
        raise SandboxError(Cause.SANDBOX_START, f"docker, {doing}: {explain(error)}") from error
    except TRANSPORT_ERRORS as error:
        raise SandboxError(Cause.ENGINE, f"docker, {doing}: {explain(error)}") from error
