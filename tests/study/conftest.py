from datetime import UTC, datetime

import pytest
from hypothesis import strategies as st

from pytest_infranoise.model.outcome import Cause, Ending, Outcome, Phase
from pytest_infranoise.model.trial import PhaseRecord, TrialRecord

COUNTS = st.none() | st.integers(0, 2**31 - 1)
BYTES = st.none() | st.integers(0, 2**50)
SECONDS = st.none() | st.floats(0, 1e6, allow_nan=False)
TEXT = st.text(max_size=20)
VALUES = st.dictionaries(TEXT, st.none() | st.booleans() | BYTES | TEXT, max_size=3)
STARTED = datetime(2026, 12, 1, 10, 22, 31, 123456, UTC).isoformat()

PHASES = st.builds(
    PhaseRecord,
    phase=st.sampled_from([item.value for item in Phase]),
    ending=st.sampled_from([item.value for item in Ending]),
    started_at=st.just(STARTED),
    wall_seconds=st.floats(0, 1e6),
    exit_code=COUNTS,
    oom_kills=COUNTS,
    limit_reached=st.none() | st.booleans(),
    memory_peak_bytes=BYTES,
    cpu_seconds=SECONDS,
    output=TEXT,
    output_truncated=st.booleans(),
    error=st.none() | TEXT,
)


@pytest.fixture(scope="session")
def trial_records():
    """A hypothesis strategy for any record that a trial can write."""
    return st.builds(
        TrialRecord,
        study=TEXT,
        task=TEXT,
        parameter_set=TEXT,
        sample=st.integers(1, 100),
        attempt=st.integers(1, 5),
        block=st.integers(0, 10**6),
        position=st.integers(0, 10**6),
        outcome=st.sampled_from(Outcome),
        cause=st.none() | st.sampled_from(Cause),
        detail=st.none() | TEXT,
        score=st.none() | st.floats(0, 1),
        oom_kills=COUNTS,
        memory_guarantee_bytes=BYTES,
        memory_limit_bytes=BYTES,
        cpu_guarantee_cores=SECONDS,
        cpu_limit_cores=SECONDS,
        memory_peak_bytes=BYTES,
        memory_working_set_bytes=BYTES,
        cpu_seconds=SECONDS,
        cpu_periods=COUNTS,
        throttled_periods=COUNTS,
        started_at=st.just(STARTED),
        wall_seconds=SECONDS,
        admission_wait_seconds=SECONDS,
        trials_beside=COUNTS,
        host_memory_available_bytes=BYTES,
        visible_cpus=COUNTS,
        visible_memory_bytes=BYTES,
        image_digest=st.none() | TEXT,
        worker=TEXT,
        seed=st.integers(0, 2**31 - 1),
        requested=VALUES,
        effective=VALUES,
        notes=st.lists(TEXT, max_size=2).map(tuple),
        phases=st.lists(PHASES, max_size=4).map(tuple),
    )


@pytest.fixture
def make_record():
    """Make a trial's record as it stands in the journal, with some of its values replaced."""

    def make(task="spike", parameter_set="1x", sample=1, **values):
        record = TrialRecord(
            study="s",
            task=task,
            parameter_set=parameter_set,
            sample=sample,
            attempt=1,
            block=0,
            position=0,
            outcome=Outcome.OOM,
            cause=Cause.ENDED_PHASE,
            detail="killed in agent",
            score=0.0,
            oom_kills=1,
            memory_guarantee_bytes=2**20,
            memory_limit_bytes=2**20,
            cpu_guarantee_cores=0.5,
            cpu_limit_cores=0.5,
            memory_peak_bytes=2**20,
            memory_working_set_bytes=2**19,
            cpu_seconds=1.25,
            cpu_periods=40,
            throttled_periods=10,
            started_at=STARTED,
            wall_seconds=2.5,
            admission_wait_seconds=0.0,
            trials_beside=0,
            host_memory_available_bytes=2**33,
            visible_cpus=2,
            visible_memory_bytes=2**33,
            image_digest=None,
            worker="gw0",
            seed=1,
            phases=(PhaseRecord("agent", "exit", STARTED, 2.0, 137, 1, output="text"),),
        ).to_json()
        return {**record, **values}

    return make
