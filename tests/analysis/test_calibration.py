"""What is proposed for a task, from what its trials used."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_infranoise.analysis.calibration import (
    SIZES,
    AgentTrials,
    CalibrationSettings,
    Usage,
    calibrate,
    rounded_up,
)
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.resources import ResourceSpec
from pytest_infranoise.statistics.thresholds import NeedStatus
from pytest_infranoise.units import GIB, MIB

SPEC = ResourceSpec.declared(64 * MIB, None)


def usage(need, limit=None, **facts):
    killed = limit is not None and need > limit
    values = {
        "memory_limit_bytes": None if limit is None else limit * MIB,
        "memory_peak_bytes": int((limit if killed else need) * MIB),
        "working_set_bytes": MIB,
        "killed": killed,
    }
    return Usage(**{**values, **facts})


def proposal(*agents, spec=SPEC, references=(), **settings):
    entries = [AgentTrials(f"agent {n}", False, {"task": own}) for n, own in enumerate(agents)]
    entries += [AgentTrials("oracle", True, {"task": own}) for own in references]
    made = calibrate(entries, {"task": spec}, CalibrationSettings(**settings))
    return made.tasks[0], made


def test_sizes_are_sane():
    assert [size // MIB for size in SIZES[:8]] == [16, 24, 32, 48, 64, 96, 128, 192]
    assert list(SIZES) == sorted(set(SIZES))
    assert SIZES[-1] > 4096 * GIB
    assert all(after <= 1.5 * before for before, after in pairwise(SIZES))


@given(st.integers(1, SIZES[-1]))
def test_rounding_up_wastes_at_most_half(size):
    assert size <= rounded_up(size) <= max(SIZES[0], 1.5 * size)


def test_the_guarantee_is_what_is_typical():
    task, _ = proposal([usage(90)] * 25 + [usage(700)] * 5)
    assert (task.guarantee, task.limit) == (96 * MIB, 768 * MIB)


def test_what_is_held_for_long_is_guaranteed():
    held = [usage(90)] * 25 + [usage(700, working_set_bytes=300 * MIB)] * 5
    task, _ = proposal(held)
    assert (task.guarantee, task.limit) == (384 * MIB, 768 * MIB)


def test_a_declared_band_is_kept_where_it_suffices():
    band = ResourceSpec(64 * MIB, 1024 * MIB)
    task, _ = proposal([usage(90)] * 30, spec=band)
    assert (task.guarantee, task.limit, task.kept) == (96 * MIB, 1024 * MIB, True)
    task, _ = proposal([usage(90)] * 30, spec=band, lower=True)
    assert (task.guarantee, task.limit, task.kept) == (96 * MIB, 96 * MIB, False)


def test_no_agent_is_no_calibration():
    with pytest.raises(UsageError, match="only reference solutions ran"):
        proposal(references=[[usage(5)] * 30])


@pytest.mark.parametrize(
    ("choices", "named"),
    [
        ({"kill_rate": 0.0}, "kill rate"),
        ({"kill_rate": 0.5}, "kill rate"),
        ({"confidence": 0.5}, "confidence"),
        ({"confidence": 1.0}, "confidence"),
        ({"kill_rate": float("nan")}, "kill rate"),
    ],
)
def test_settings_are_checked(choices, named):
    with pytest.raises(UsageError, match=named):
        CalibrationSettings(**choices)


def test_what_was_cut_short_is_an_error_of_its_own():
    cut = [usage(1, cut_short=True, killed=None)] * 10
    task, made = proposal([usage(90)] * 30 + cut)
    assert task.agents[0].n_judged == 30
    expected = made.agents[0].expected
    assert expected.other == 0.25
    assert expected.kills == 1 / 31
    assert expected.mean == pytest.approx(0.25 + 1 / 31)
    assert expected.interval[0] > 0.1
    assert expected.interval[1] > expected.mean


needs = st.lists(st.tuples(st.integers(1, 900), st.sampled_from([64, 192, None])), max_size=45)


@given(needs, needs, st.booleans())
def test_values_are_whole_or_absent_and_another_agent_only_adds(first, second, lower):
    one = [usage(*trial) for trial in first]
    two = [usage(*trial) for trial in second]
    alone, _ = proposal(one, lower=lower)
    both, made = proposal(one, two, lower=lower)
    for task in (alone, both):
        assert (task.limit is None) == (task.guarantee is None) == (task.upper is None)
        assert (task.limit is None) == (task.status in (NeedStatus.AT_LEAST, NeedStatus.UNKNOWN))
        if task.limit is not None:
            assert task.guarantee <= task.limit
            assert task.above is None or task.limit > task.above
            if not lower:
                assert task.limit >= SPEC.memory_limit_bytes
    if both.limit is not None:
        assert alone.limit is not None
        assert both.limit >= alone.limit
        assert both.guarantee >= alone.guarantee
    for summary in made.agents:
        if summary.expected is not None:
            low, high = summary.expected.interval
            assert low <= summary.expected.mean <= high <= 1
