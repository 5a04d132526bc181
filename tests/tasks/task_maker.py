"""What a valid task directory holds, to be spoilt one thing at a time."""

from collections.abc import Callable
from pathlib import Path

FILES = {
    "instruction.md": "Do it.\n",
    "environment/Dockerfile": "FROM python:3.11-slim-bookworm\nWORKDIR /app\n",
    "solution/solve.sh": "#!/bin/sh\n",
    "tests/test.sh": "#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n",
}
MEMORY = '[environment]\nmemory = "512M"\n'

TaskMaker = Callable[..., Path]
