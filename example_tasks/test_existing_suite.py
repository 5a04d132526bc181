"""A suite of ordinary tests, as one that was there before the plugin.

What makes them trials is the marker and the fixture; their assertions are the verdict.
"""

import pytest

pytestmark = pytest.mark.infra(
    memory="64M", cpus=0.1, image="python:3.11-slim-bookworm", timeout=30
)

FILL_BUFFER = """
import time
buffer = bytearray(b"x") * (100 * 1024 * 1024)
time.sleep(0.3)
print(len(buffer))
"""


def test_interpreter_answers(infra_sandbox):
    """Passes in every parameter set."""
    result = infra_sandbox.exec(["python3", "-c", "print(6 * 7)"])

    assert result.exit_code == 0
    assert result.output.strip() == "42"


def test_large_buffer_fits(infra_sandbox):
    """Needs about 110 MB: killed at 1x, passes at 3x and uncapped."""
    result = infra_sandbox.exec(["python3", "-c", FILL_BUFFER])

    assert result.exit_code == 0
    assert result.output.strip() == "104857600"
