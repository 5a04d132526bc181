"""What a test does without what it needs: skip visibly, or fail where that is required."""

import os
from typing import NoReturn

import pytest


def missing_engine(name: str, reason: object) -> NoReturn:
    """Skip the test, or fail it where INFRANOISE_REQUIRE_<name>=1 says that the engine is there."""
    if os.environ.get(f"INFRANOISE_REQUIRE_{name.upper()}") == "1":
        pytest.fail(f"the {name} engine is required here: {reason}", pytrace=False)
    pytest.skip(f"no {name} engine: {reason}")
