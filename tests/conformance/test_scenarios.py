"""The conformance suite: each scenario on each engine must give exactly the right record."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import facilities
import pytest
from catalogue import SCENARIOS
from playing import engine_key, play
from results import Results
from sandboxes import BUSYBOX, PYTHON
from scenario import Scenario
from small_disk import small_disk

from pytest_infranoise.backends.base import Backend
from pytest_infranoise.backends.local import LocalBackend
from pytest_infranoise.model.trial import TrialRecord

REPEATS = int(os.environ.get("INFRANOISE_REPEAT", "1"))


@contextmanager
def prepared(scenario: Scenario, engine: Backend, folder: Path) -> Iterator[Backend]:
    """Give a scenario what it needs of the host; it may need an engine of its own."""
    if "swap" in scenario.needs:
        with facilities.swap(folder):
            yield engine
    elif "small disk" in scenario.needs:
        with small_disk(folder) as place, pytest.MonkeyPatch.context() as patch:
            patch.setenv("INFRANOISE_LOCAL_DIR", str(place))
            own = LocalBackend(use_cgroups=engine.info.enforcement != "watchdog")
            try:
                yield own
            finally:
                own.close()
    else:
        yield engine


def brief(record: TrialRecord) -> Iterator[str]:
    """What a person wants to see of a wrong record."""
    yield f"{record.outcome} {record.cause} {record.detail!r}, kills {record.oom_kills}"
    for phase in record.phases:
        yield (
            f"{phase.phase}: {phase.ending} {phase.exit_code}, kills {phase.oom_kills} "
            f"({phase.oom_kills_source}), limit reached {phase.limit_reached}, "
            f"{phase.wall_seconds:.2f} s, {phase.error!r}, {phase.output[-500:]!r}"
        )


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_right_record(
    scenario: Scenario,
    engine: Backend,
    results: Results,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    key = engine_key(engine.info)
    reason = facilities.reason_against(scenario, key)
    if reason is not None:
        results.note(engine, scenario.name, status="n/a", reason=reason)
        pytest.skip(f"not for {key}: {reason}")
    if engine.info.backend == "docker":
        ensure: Callable[[str], Any] = request.getfixturevalue("docker_image")
        ensure(PYTHON if scenario.program == "python3" else BUSYBOX)
    runs = REPEATS if scenario.repeats else 1
    wrong = []
    with prepared(scenario, engine, tmp_path) as backend:
        for run in range(runs):
            folder = tmp_path / str(run)
            record = play(scenario, backend, folder)
            found = scenario.differences(record, key)
            if found:
                wrong.append("; ".join(found))
                print(*brief(record), sep="\n")
    status = "wrong" if wrong else "right"
    results.note(engine, scenario.name, status=status, runs=runs, wrong=wrong)
    assert not wrong
