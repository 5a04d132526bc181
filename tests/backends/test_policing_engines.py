"""The watch around a sandbox, on real engines."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sandboxes import allocation, make_task, request_for

from pytest_infranoise.admission import AdmissionLedger, default_budget
from pytest_infranoise.backends.base import Backend
from pytest_infranoise.model.enforcement import Enforcement
from pytest_infranoise.model.outcome import Cause, Outcome, Phase
from pytest_infranoise.model.resources import ONE, Allocation, ParameterSet
from pytest_infranoise.model.trial import TrialPlan, TrialRecord
from pytest_infranoise.trial import LiveTrial, TrialContext
from pytest_infranoise.units import MIB

CONTAINER = Enforcement("container")
HOG = "dd if=/dev/zero of=/dev/null bs=64M count=1"
COUNT_UP = "while :; do read now rest </proc/uptime; echo $now; sleep 0.01; done"


@pytest.fixture
def live(backend: Backend, study: str, tmp_path: Path) -> Iterator[Callable[..., LiveTrial]]:
    """Open a trial of 32 MiB under a method, below a ceiling of 256 MiB."""
    yield from trials_on(backend, study, tmp_path)


def trials_on(backend: Backend, study: str, tmp_path: Path) -> Iterator[Callable[..., LiveTrial]]:
    opened: list[LiveTrial] = []

    def open_trial(enforcement: Enforcement, given: Allocation | None = None) -> LiveTrial:
        context = TrialContext(
            backend=backend,
            agent=None,  # type: ignore[arg-type]
            ledger=AdmissionLedger("test", tmp_path),
            budget=default_budget(backend.info.capacity),
            worker="main",
            owner="tests",
            enforcement=enforcement,
            ceiling_bytes=256 * MIB,
        )
        limits = given or allocation()
        plan = TrialPlan(study, "t", ParameterSet.joint(ONE), 1, 0, 0, 7, limits, limits, None)
        task = make_task()
        image = request_for(backend, study, limits, task=task).image
        opened.append(LiveTrial(plan, task, image, context))
        opened[-1].open()
        return opened[-1]

    tmp_path.chmod(0o700)
    yield open_trial
    for trial in opened:
        trial.close()
    backend.sweep(study)


def agent(trial: LiveTrial, script: str) -> TrialRecord:
    with trial.phase(Phase.AGENT) as phase:
        phase.finish(trial.sandbox.exec(["sh", "-c", script]))
    trial.close()
    return trial.record()


def test_a_killed_child_ends_the_trial_within_200_ms(live: Any, backend: Backend) -> None:
    trial = live(CONTAINER)
    begun = time.monotonic()
    trial.sandbox.exec(["true"])
    quick = time.monotonic() - begun
    record = agent(trial, f"{HOG}; {COUNT_UP}")
    assert (record.outcome, record.cause) == (Outcome.OOM, Cause.ENDED_PHASE)
    phase = record.phases[1]
    assert (phase.ending, phase.exit_code) == ("oom_policy", None)
    assert phase.oom_kills is not None
    assert phase.oom_kills >= 1
    times = [float(word) for word in phase.output.split() if word.replace(".", "").isdigit()]
    if backend.info.kills_groups:
        assert (times, phase.victim) == ([], "all")
    else:
        acted = times[-1] - times[0] if times else 0.0  # before the first line was printed
        print(f"{backend.info.engine}: acted after {acted:.2f} s")
        # A machine that is emulated or overloaded needs longer for a single step.
        assert acted <= (0.2 if quick < 0.1 else 0.2 + 5 * quick)
        assert phase.victim in ("child", None)  # None where the machine was too slow to tell


def test_a_killed_step_is_the_victim(live: Any, backend: Backend) -> None:
    trial = live(CONTAINER)
    with trial.phase(Phase.AGENT) as phase:
        phase.finish(trial.sandbox.exec(HOG.split()))
    assert not trial.is_open
    trial.close()
    record = trial.record()
    assert (record.outcome, record.cause) == (Outcome.OOM, Cause.ENDED_PHASE)
    victim = "all" if backend.info.kills_groups else "step"
    assert record.phases[1].victim in (victim, None)


def test_under_the_process_policy_the_trial_goes_on(live: Any) -> None:
    trial = live(Enforcement())
    with trial.phase(Phase.AGENT) as phase:
        phase.finish(trial.sandbox.exec(["sh", "-c", f"{HOG}; exit 0"]))
    assert trial.is_open
    trial.close()
    assert trial.record().cause is Cause.SURVIVED_THEN_FAILED
    assert trial.record().phases[1].victim == "child"


def test_a_container_without_a_kill_is_left_alone(live: Any) -> None:
    trial = live(CONTAINER)
    assert trial.sandbox.exec(["sh", "-c", "exit 137"]).exit_code == 137
    assert trial.is_open
    assert trial.sandbox.exec(["true"]).exit_code == 0


def test_the_container_policy_of_the_watchdog(
    study: str, tmp_path: Path, open_local_backend: Callable[..., Backend]
) -> None:
    backend = open_local_backend(use_cgroups=False)
    opener = trials_on(backend, study, tmp_path)
    hold = "x=$(dd if=/dev/zero bs=1M count=48 2>/dev/null | tr '\\0' a); sleep 9; echo ${#x}"
    record = agent(next(opener)(CONTAINER), f"sh -c '{hold.replace(chr(39), chr(34))}'; {COUNT_UP}")
    next(opener, None)
    backend.close()
    assert (record.outcome, record.cause) == (Outcome.OOM, Cause.ENDED_PHASE)
    assert record.phases[1].ending == "oom_policy"
    assert record.phases[1].oom_kills_source == "watchdog"


def test_each_phase_has_its_own_victim(live: Any) -> None:
    hold = "x=$(dd if=/dev/zero bs=1M count=48 2>/dev/null | tr '\\0' a); sleep 60; echo ${#x}"
    trial = live(Enforcement(lenient_seconds=0.3))
    for phase, script in ((Phase.AGENT, hold), (Phase.VERIFY, "true")):
        with trial.phase(phase) as run:
            run.finish(trial.sandbox.exec(["sh", "-c", script]))
    trial.close()
    assert [phase.victim for phase in trial.record().phases] == [None, "all", None, None]


def test_a_short_overrun_is_tolerated(live: Any) -> None:
    trial = live(Enforcement(lenient_seconds=20))
    script = "x=$(dd if=/dev/zero bs=1M count=48 2>/dev/null | tr '\\0' a); sleep 1; echo ${#x}"
    with trial.phase(Phase.AGENT) as phase:
        phase.finish(trial.sandbox.exec(["sh", "-c", script]))
    trial.close()
    record = trial.record()
    phase_record = record.phases[1]
    assert phase_record.output.strip() == str(48 * MIB)
    assert (phase_record.oom_kills, phase_record.exit_code) == (0, 0)
    assert phase_record.overrun_seconds is not None
    assert phase_record.overrun_seconds > 0.5
    assert record.overrun_seconds == pytest.approx(phase_record.overrun_seconds)


def test_a_long_overrun_is_killed(live: Any) -> None:
    begun = time.monotonic()
    script = "x=$(dd if=/dev/zero bs=1M count=48 2>/dev/null | tr '\\0' a); sleep 60; echo ${#x}"
    record = agent(live(Enforcement(lenient_seconds=1)), script)
    assert time.monotonic() - begun < 50
    assert (record.outcome, record.cause) == (Outcome.OOM, Cause.ENDED_PHASE)
    phase = record.phases[1]
    assert (phase.oom_kills, phase.oom_kills_source) == (1, "lenient watchdog")
    assert (phase.exit_code, phase.victim, phase.limit_reached) == (137, "all", True)
    assert phase.overrun_seconds is not None
    assert 0.7 < phase.overrun_seconds < 10
    assert record.effective["memory_watch_bytes"] == 32 * MIB
    assert record.effective["memory_limit_bytes"] is None


def test_page_cache_is_no_overrun(live: Any) -> None:
    script = "dd if=/dev/zero of=/tmp/f bs=1M count=64 2>/dev/null; sleep 1; cat /tmp/f >/dev/null"
    record = agent(live(Enforcement(lenient_seconds=0.5)), f"{script}; sleep 1")
    assert record.phases[1].oom_kills == 0


def test_an_overrun_up_to_the_ceiling_is_the_host_s_kill(live: Any) -> None:
    script = "dd if=/dev/zero of=/dev/null bs=400M count=1"
    record = agent(live(Enforcement(lenient_seconds=30)), script)
    assert (record.outcome, record.cause) == (Outcome.INFRA_ERROR, Cause.HOST_MEMORY)


def test_every_measure_of_a_phase(live: Any) -> None:
    record = agent(live(Enforcement()), "x=0; while [ $x -lt 100000 ]; do x=$((x+1)); done")
    phase = record.phases[1]
    assert phase.host_cpu_busy_share is not None
    assert 0 < phase.host_cpu_busy_share <= 1
    for name in ("memory_some", "memory_full", "cpu_some"):
        waited = getattr(phase, f"host_{name}_pressure_seconds")
        has_pressure = Path(f"/proc/pressure/{name.split('_')[0]}").exists()
        assert (waited is not None and waited >= 0) == has_pressure
    assert phase.victim is None
    assert phase.overrun_seconds is None
