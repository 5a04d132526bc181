"""How many kills different signs get right: `State.OOMKilled`, exit code 137, our record.

usage: python benchmarks/kills.py [--amount quick|normal] [--json FILE]

Plays the conformance suite's scenarios on the Docker Engine that DOCKER_HOST names and prints two
tables. The flag is read twice: as it stands at the trial's end, and after a stop of the container,
since it stays false while one runs. The exit codes are those of the agent's and the verifier's
commands.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "conformance")]

import facilities  # noqa: E402
from catalogue import SCENARIOS  # noqa: E402
from docker.errors import DockerException  # noqa: E402
from kill_signs import kills_table, mistakes_table, observe, true_kills  # noqa: E402
from playing import engine_facts, engine_key, play  # noqa: E402
from scenario import Scenario  # noqa: E402

from pytest_infranoise.backends.base import SandboxRequest  # noqa: E402
from pytest_infranoise.backends.docker.backend import DockerBackend  # noqa: E402
from pytest_infranoise.backends.docker.sandbox import DockerSandbox  # noqa: E402


class FlagReader(DockerBackend):
    """A backend that reads each container's flag when its trial is over."""

    flags = (False, False)

    def open(self, request: SandboxRequest) -> DockerSandbox:
        """Open a container whose flag is read before it is removed."""
        self.flags = (False, False)
        sandbox = super().open(request)
        close, is_read = sandbox.close, []

        def read_and_close() -> None:
            if not is_read:
                self.flags = self._read_flags(sandbox.container_id)
                is_read.append(True)
            close()

        sandbox.close = read_and_close  # type: ignore[method-assign]
        return sandbox

    def _read_flags(self, container_id: str) -> tuple[bool, bool]:
        try:
            container = self.client.containers.get(container_id)
            before = bool(container.attrs["State"]["OOMKilled"])
            container.stop(timeout=0)
            container.reload()
        except DockerException:  # somebody has removed it: there is no flag to read
            return (False, False)
        return (before, bool(container.attrs["State"]["OOMKilled"]))


def measure(amount: str) -> dict[str, Any]:
    backend = FlagReader()
    engine = engine_key(backend.info)
    trials = []
    try:
        for scenario in SCENARIOS:
            true = true_kills(scenario, engine)
            if true is not None and is_played(scenario, engine, amount):
                trials.append({"scenario": scenario.name, "true": true, **signs(scenario, backend)})
    finally:
        backend.close()
    return {"engine": engine, "facts": engine_facts(backend.info), "trials": trials}


def is_played(scenario: Scenario, engine: str, amount: str) -> bool:
    is_in = scenario.is_core if amount == "quick" else not scenario.is_slow
    # What a watch of ours kills is no kill by the kernel.
    is_in = is_in and not scenario.enforcement.is_lenient
    return is_in and not scenario.needs and facilities.reason_against(scenario, engine) is None


def signs(scenario: Scenario, backend: FlagReader) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="infranoise-kills-") as folder:
        record = play(scenario, backend, Path(folder))
    return observe(record, *backend.flags)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--amount", choices=("quick", "normal"), default="normal")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    measured = measure(options.amount)
    if options.json is not None:
        options.json.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    print("\n".join([*kills_table([measured]), "", *mistakes_table([measured])]))


if __name__ == "__main__":
    main()
