"""What every sandbox of a trial holds before its first step, and what is made anew later."""

from pathlib import Path

from pytest_infranoise.agents.base import INSTRUCTION_PATH
from pytest_infranoise.backends.base import Placement

LOGS = "/logs"
AGENT_LOGS = "/logs/agent"
VERIFIER_LOGS = "/logs/verifier"
PUBLISHED = "/logs/artifacts"
"""What an agent leaves here is always taken over."""

_EVERYBODY = 0o777


def first_folders() -> list[Placement]:
    """Return the folders that the task format promises."""
    names = (LOGS, AGENT_LOGS, VERIFIER_LOGS, PUBLISHED)
    return [Placement(name, over="all", mode=_EVERYBODY) for name in names]


def fresh_logs(*names: str) -> list[Placement]:
    """Return log folders with nothing in them, at their own places, whatever an agent has made."""
    above = Placement(LOGS, over="all", mode=_EVERYBODY)
    return [above, *(Placement(name, mode=_EVERYBODY) for name in names)]


def instruction(file: Path) -> list[Placement]:
    """Return where a file with the task's instruction lies in the sandbox."""
    folder = INSTRUCTION_PATH.rpartition("/")[0]
    return [
        Placement(folder, over="all", mode=0o755),
        Placement(INSTRUCTION_PATH, file, mode=0o644),
    ]
