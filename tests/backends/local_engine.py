"""Opening the local backend for the tests that need it in a special form."""

import os
from typing import Any

import pytest

from pytest_infranoise.backends.local import LocalBackend
from pytest_infranoise.errors import BackendUnavailableError


def open_local_backend(**options: Any) -> LocalBackend:
    """Open it, or skip; fail where INFRANOISE_REQUIRE_LOCAL=1 says that it must be there."""
    try:
        return LocalBackend(**options)
    except BackendUnavailableError as error:
        if os.environ.get("INFRANOISE_REQUIRE_LOCAL") == "1":
            pytest.fail(f"the local backend is required here: {error}", pytrace=False)
        pytest.skip(f"no local backend: {error}")
