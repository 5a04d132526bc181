"""Opening the local backend for the tests that need it in a special form."""

from typing import Any

from required import missing_engine

from pytest_infranoise.backends.local import LocalBackend
from pytest_infranoise.errors import BackendUnavailableError


def open_local_backend(**options: Any) -> LocalBackend:
    """Open it, or skip; fail where INFRANOISE_REQUIRE_LOCAL=1 says that it must be there."""
    try:
        return LocalBackend(**options)
    except BackendUnavailableError as error:
        missing_engine("local", error)
