import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_infranoise.admission import (
    Budget,
    Request,
    check_guarantees,
    default_budget,
    make_budget,
    request_for,
)
from pytest_infranoise.admission.budget import to_microcores
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.resources import Allocation, Capacity
from pytest_infranoise.units import GIB, MIB


def allocation(memory=100 * MIB, limit=300 * MIB, cores=0.5, quota=1.5):
    return Allocation(memory, limit, cores, quota)


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (1 * GIB, 768 * MIB),  # a quarter is less than 512 MiB
        (2 * GIB, 1536 * MIB),
        (8 * GIB, 7680 * MIB),  # 512 MiB is more than 5 %
        (100 * GIB, 95 * GIB),
    ],
)
def test_default_budget_keeps_a_reserve(memory, expected):
    assert default_budget(Capacity(memory, 6)) == Budget(expected, 6)


@given(memory=st.integers(0, 2**50))
def test_default_budget_is_never_below_three_quarters(memory):
    budget = default_budget(Capacity(memory, 1)).memory_bytes
    assert memory * 3 / 4 <= budget <= memory


def test_budget_overrides():
    capacity = Capacity(8 * GIB, 2)
    assert make_budget(capacity) == default_budget(capacity)
    assert make_budget(capacity, memory_bytes=8 * GIB).memory_bytes == 8 * GIB
    assert make_budget(capacity, cpu_cores=16) == Budget(7680 * MIB, 16)
    with pytest.raises(UsageError, match=r"--infra-memory-budget: 9 GiB is more than .*8 GiB"):
        make_budget(capacity, memory_bytes=9 * GIB)


@pytest.mark.parametrize(
    ("given_allocation", "admit", "expected"),
    [
        (allocation(), "guarantee", Request(100 * MIB, 0.5)),
        (allocation(cores=None, quota=None), "guarantee", Request(100 * MIB, None)),
        (allocation(), "limit", Request(300 * MIB, 1.5)),
        (allocation(limit=50 * MIB), "limit", Request(100 * MIB, 1.5)),
        (allocation(limit=None, quota=None), "limit", Request(2 * GIB, 4)),
        (allocation(limit=None, cores=None, quota=None), "limit", Request(2 * GIB, None)),
    ],
    ids=["guarantee", "no cpu", "limit", "limit below 1x", "uncapped", "uncapped, no cpu"],
)
def test_what_a_trial_reserves(given_allocation, admit, expected):
    assert request_for(given_allocation, Budget(2 * GIB, 4), admit=admit) == expected


class TestCheckGuarantees:
    budget = Budget(1 * GIB, 1)

    def test_what_fits_alone_is_accepted(self):
        check_guarantees({"a": [allocation(1 * GIB, cores=1)]}, self.budget)
        check_guarantees({"a": [allocation(limit=None, quota=1)]}, self.budget, admit="limit")

    @pytest.mark.parametrize(
        ("wanted", "admit", "parts"),
        [
            (allocation(2 * GIB), "guarantee", ["task a", "guarantee 2 GiB", "budget of 1 GiB"]),
            (allocation(cores=1.5), "guarantee", ["CPU guarantee 1.5 cpu", "--infra-cpu-budget"]),
            (allocation(), "limit", ["CPU limit 1.5 cpu", "budget of 1 cpu"]),
            (allocation(limit=3 * GIB, quota=1), "limit", ["kill threshold 3 GiB", "1 GiB"]),
        ],
    )
    def test_what_never_fits_names_task_figure_and_fix(self, wanted, admit, parts):
        with pytest.raises(UsageError) as error:
            check_guarantees({"ok": [allocation(quota=1)], "a": [wanted]}, self.budget, admit=admit)
        message = str(error.value)
        assert len(message.splitlines()) == 1
        assert all(part in message for part in parts)

    def test_one_line_per_task_and_not_too_many(self):
        wanted = {f"t{n}": [allocation(2 * GIB)] * 6 for n in range(25)}
        with pytest.raises(UsageError) as error:
            check_guarantees(wanted, self.budget)
        lines = str(error.value).splitlines()
        assert len(lines) == 2
        assert lines[1] == "  25 of this kind, also: task t1; task t2; task t3 and 21 more"


@given(parts=st.integers(1, 500), cores=st.integers(1, 64))
def test_equal_shares_of_all_cores_fit_together(parts, cores):
    """Sums are integers, so the last of n equal shares is never refused for a rounding error."""
    share = to_microcores(cores / parts)
    total = to_microcores(cores)
    assert abs(share * parts - total) <= parts / 2
    if cores * 1_000_000 % parts == 0:
        assert Budget(0, cores).has_room(0, share * parts)


@given(st.lists(st.sampled_from([0.1, 0.2, 0.25, 0.3, 0.7]), max_size=50))
def test_sums_of_decimal_shares_are_exact(shares):
    tenths = sum(round(share * 100) for share in shares)
    assert sum(map(to_microcores, shares)) == tenths * 10_000
