"""What a task sees of the machine: processors and memory, which are the host's unless hidden."""

from dataclasses import dataclass
from typing import Self

from pytest_infranoise.backends.base import StepResult

SETUP_SCRIPT = """
mkdir -p /logs/agent /logs/verifier /logs/artifacts && chmod 777 /logs /logs/*
nproc 2>/dev/null || echo unknown
while read -r name kib unit; do
  case $name in MemTotal:|MemAvailable:) echo "$name $kib" ;; esac
done </proc/meminfo
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the task sees of the machine; these are the host's unless something hides them."""

    cpus: int | None = None
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None

    @classmethod
    def parse(cls, result: StepResult) -> Self:
        """Read the output of the setup script."""
        words: dict[str, str] = {}
        for line in result.output.splitlines():
            name, space, value = line.strip().partition(" ")
            words[name if space else "cpus"] = value if space else name

        def number(name: str, factor: int) -> int | None:
            text = words.get(name, "")
            return int(text) * factor if text.isdecimal() else None

        return cls(number("cpus", 1), number("MemTotal:", 1024), number("MemAvailable:", 1024))
