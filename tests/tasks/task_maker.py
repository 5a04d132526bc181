"""What a valid task directory holds, to be spoilt one thing at a time."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_infranoise.errors import UsageError
from pytest_infranoise.tasks.harbor import read_task

FILES = {
    "instruction.md": "Do it.\n",
    "environment/Dockerfile": "FROM python:3.11-slim-bookworm\nWORKDIR /app\n",
    "solution/solve.sh": "#!/bin/sh\n",
    "tests/test.sh": "#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n",
}
MEMORY = '[environment]\nmemory = "512M"\n'

TaskMaker = Callable[..., Path]


def error_of(directory: Path) -> str:
    """The one line that refuses a task directory."""
    with pytest.raises(UsageError) as caught:
        read_task(directory, host_environment={})
    message = str(caught.value)
    assert "\n" not in message
    assert "pydantic" not in message
    assert "http" not in message
    return message
