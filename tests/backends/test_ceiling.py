"""One memory ceiling over all sandboxes of a study, on real engines."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from required import missing_engine
from sandboxes import allocation, make_task, request_for

from pytest_infranoise.admission import AdmissionLedger, default_budget
from pytest_infranoise.backends.base import Backend, Sandbox
from pytest_infranoise.backends.ceilings import PREFIX, CeilingPlace, Ceilings, find_unheld
from pytest_infranoise.backends.cgroup_paths import CgroupPaths, Hierarchies, find_hierarchies
from pytest_infranoise.model.outcome import Cause, Outcome, Phase
from pytest_infranoise.model.resources import ONE, ParameterSet
from pytest_infranoise.model.trial import TrialPlan
from pytest_infranoise.trial import LiveTrial, TrialContext
from pytest_infranoise.units import MIB

CEILING = 96 * MIB
GREED = "dd if=/dev/zero of=/dev/null bs=200M count=1"


def folders_of(study: str) -> list[Path]:
    """Every cgroup of a study's ceiling, wherever it is mounted."""
    found = []
    for top, inner, _ in os.walk("/sys/fs/cgroup"):
        names = (study, study.replace("-", "_"))
        found += [Path(top) / name for name in inner if any(word in name for word in names)]
    return found


@pytest.fixture
def open_below(backend: Backend, study: str) -> Iterator[Callable[..., Sandbox]]:
    opened: list[Sandbox] = []

    def open_one(limit: int | None, trial: str, ceiling: int = CEILING) -> Sandbox:
        request = request_for(backend, study, allocation(limit), trial=trial, ceiling_bytes=ceiling)
        opened.append(backend.open(request))
        return opened[-1]

    yield open_one
    for sandbox in opened:
        sandbox.close()
    backend.sweep(study)


def test_of_three_under_one_ceiling_only_the_greedy_one_is_killed(open_below: Any) -> None:
    sandboxes = [open_below(400 * MIB, f"t{number}") for number in range(3)]
    for sandbox in sandboxes:
        assert sandbox.effective_limits().values["memory_ceiling_bytes"] == CEILING
    for idle in sandboxes[1:]:
        idle.exec(["sh", "-c", "sleep 1000 & exit 0"])
    assert sandboxes[0].exec(["sh", "-c", GREED]).exit_code != 0
    greedy, *others = [item.counters(expect_kill=item is sandboxes[0]) for item in sandboxes]
    assert greedy.oom_kills
    assert greedy.limit_reached is False
    assert [(item.oom_kills, item.limit_reached) for item in others] == [(0, False)] * 2


def test_a_kill_at_the_own_threshold_below_a_ceiling_is_its_own(open_below: Any) -> None:
    sandbox = open_below(32 * MIB, "t")
    sandbox.exec(["sh", "-c", GREED])
    counters = sandbox.counters(expect_kill=True)
    assert counters.oom_kills
    assert counters.limit_reached is True


@pytest.mark.parametrize("limit", [400 * MIB, None])
def test_a_trial_that_the_ceiling_killed_is_the_host_s(
    backend: Backend, study: str, tmp_path: Path, limit: int | None
) -> None:
    tmp_path.chmod(0o700)
    given, task = allocation(limit), make_task()
    context = TrialContext(
        backend=backend,
        agent=None,  # type: ignore[arg-type]
        ledger=AdmissionLedger("test", tmp_path),
        budget=default_budget(backend.info.capacity),
        worker="main",
        owner="tests",
        ceiling_bytes=CEILING,
    )
    plan = TrialPlan(study, "t", ParameterSet.joint(ONE), 1, 0, 0, 7, given, given, None)
    image = request_for(backend, study, given, task=task).image
    with LiveTrial(plan, task, image, context) as trial, trial.phase(Phase.AGENT) as phase:
        phase.finish(trial.sandbox.exec(["sh", "-c", GREED]))
    backend.sweep(study)
    record = trial.record()
    assert (record.outcome, record.cause) == (Outcome.INFRA_ERROR, Cause.HOST_MEMORY)
    assert record.effective["memory_ceiling_bytes"] == CEILING


def test_a_sweep_leaves_no_ceiling_behind(open_below: Any, backend: Backend, study: str) -> None:
    sandbox = open_below(32 * MIB, "t")
    assert folders_of(study)
    assert backend.sweep(study, "somebody else") == 0
    assert folders_of(study)
    sandbox.close()
    backend.sweep(study)
    assert folders_of(study) == []


def test_without_a_ceiling_nothing_is_put_above(open_sandbox: Any, study: str) -> None:
    sandbox = open_sandbox(allocation(400 * MIB))
    assert sandbox.exec(["sh", "-c", "dd if=/dev/zero of=/dev/null bs=120M count=1"]).exit_code == 0
    assert not [path for path in folders_of(study) if path.name.startswith(PREFIX)]


# --- the ceilings themselves ---------------------------------------------------------------------


@pytest.fixture
def place() -> CeilingPlace:
    """Where this host's ceilings can be made, or a skip that says why not."""
    trees = find_hierarchies()
    if trees is None or not os.access(trees.memory, os.W_OK):
        missing_engine("local", "no cgroup can be made here")
    return CeilingPlace(trees.version, trees.memory, trees.others)


def limit_of(folder: Path, version: int) -> int:
    name = "memory.limit_in_bytes" if version == 1 else "memory.max"
    return int((folder / name).read_text())


def test_a_ceiling_is_made_once_and_kept_while_it_is_used(place: CeilingPlace, study: str) -> None:
    first, second = Ceilings(place), Ceilings(place)
    folder = first.make(study, CEILING)
    assert second.make(study, CEILING) == folder
    swap = folder / ("memory.swap.max" if place.version == 2 else "memory.memsw.limit_in_bytes")
    if swap.exists():  # no way out
        assert int(swap.read_text()) == (0 if place.version == 2 else CEILING)
        first.make(study, 2 * CEILING)
        first.make(study, CEILING, allow_swap=True)
        text = swap.read_text().strip()
        assert text == "max" if place.version == 2 else int(text) > CEILING
    assert limit_of(folder, place.version) == CEILING
    first.close()
    second.make(study + "-other", CEILING)  # looks for what dead runs left
    assert folder.is_dir()
    second.remove(study + "-other")
    second.remove(study)
    assert not folder.exists()


def test_what_a_dead_run_left_goes_when_the_next_one_starts(
    place: CeilingPlace, study: str
) -> None:
    trees = Hierarchies(place.version, place.memory, place.others)
    code = (
        "import sys, os; from pathlib import Path\n"
        "from pytest_infranoise.backends.ceilings import *\n"
        "place = CeilingPlace(int(sys.argv[1]), Path(sys.argv[2]))\n"
        "print(Ceilings(place).make(sys.argv[3], 1 << 27), flush=True); os._exit(9)"
    )
    made = subprocess.run(
        [sys.executable, "-c", code, str(place.version), str(place.memory), study],
        capture_output=True,
        text=True,
        check=False,
    )
    left = Path(made.stdout.strip())
    assert left.is_dir()
    assert left in [folder for _, folder, _ in find_unheld(trees)]
    ceilings = Ceilings(place)
    ceilings.make(study + "-next", CEILING)
    assert not left.exists()
    ceilings.remove(study + "-next")


def test_unheld_ceilings_are_found_and_removed(place: CeilingPlace, study: str) -> None:
    trees = Hierarchies(place.version, place.memory, place.others)

    def unheld() -> dict[str, Callable[[], None]]:
        return {name: remove for name, _, remove in find_unheld(trees)}

    ceilings = Ceilings(place)
    folder = ceilings.make(study, CEILING)
    assert study not in unheld()
    ceilings.close()
    unheld()[study]()
    assert not folder.exists()


def test_a_ceiling_is_tried_out_without_a_trace(place: CeilingPlace) -> None:
    before = sorted(place.memory.glob(f"{PREFIX}try-*"))
    Ceilings(place).try_out()
    assert sorted(place.memory.glob(f"{PREFIX}try-*")) == before


@pytest.mark.parametrize("version", [1, 2])
def test_a_place_that_refuses_says_so(tmp_path: Path, version: int) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - whatever the kernel says
        Ceilings(CeilingPlace(version, tmp_path / "absent")).try_out()


@pytest.mark.parametrize(
    ("peak", "events", "was_reached"),
    [(50, "max 0\noom 0", False), (100, "max 3\noom 0", True), (100, "max 0\noom 1", True)],
)
@pytest.mark.parametrize("version", [1, 2])
def test_whether_a_ceiling_was_reached_is_known_after_its_child_is_gone(
    tmp_path: Path, version: int, peak: int, events: str, was_reached: bool
) -> None:
    from pytest_infranoise.backends.cgroup_paths import ceiling_of, ceiling_was_reached

    ceiling = tmp_path / "ceiling"
    ceiling.mkdir()
    files = {
        "memory.limit_in_bytes": f"{100 * MIB}\n",
        "memory.max_usage_in_bytes": f"{peak * MIB}\n",
        "memory.max": f"{100 * MIB}\n",
        "memory.events.local": events,
        "cgroup.controllers": "memory",
    }
    for name, text in files.items():
        (ceiling / name).write_text(text)
    paths = CgroupPaths(version, ceiling / "gone")
    assert ceiling_of(paths) == 100 * MIB
    assert ceiling_was_reached(paths) is was_reached


def test_a_stale_ceiling_goes_with_the_empty_cgroups_that_are_in_it(
    place: CeilingPlace, study: str
) -> None:
    folder = place.memory / f"{PREFIX}{study}"
    (folder / "left" / "below").mkdir(parents=True)
    ceilings = Ceilings(place)
    ceilings.remove_unheld(folder.name)
    assert not folder.exists()


def test_a_ceiling_in_which_something_runs_stays(place: CeilingPlace, study: str) -> None:
    folder = place.memory / f"{PREFIX}{study}"
    (folder / "empty").mkdir(parents=True)
    (folder / "used").mkdir()
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            (folder / "used" / "cgroup.procs").write_text(str(process.pid))
            with pytest.raises(OSError, match="busy"):
                Ceilings(place).remove_unheld(folder.name)
            assert (folder / "used").is_dir()
        finally:
            process.kill()
    Ceilings(place).remove_unheld(folder.name)
    assert not folder.exists()
