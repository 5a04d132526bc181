"""Multipliers, parameter sets, and what they make of a task's spec."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.resources import (
    ONE,
    Allocation,
    Capacity,
    Multiplier,
    ParameterSet,
    ResourceSpec,
    allocate,
    baseline_of,
    crossed_sets,
    fit,
    joint_sets,
    parse_multipliers,
    with_control,
)
from pytest_infranoise.units import GIB, MIB

SPEC = ResourceSpec.declared(100 * MIB, 0.5)
HOST = Capacity(memory_bytes=GIB, cpu_cores=2, minimum_memory_bytes=6 * MIB)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("1", "1x"),
        ("1.0", "1x"),
        ("3x", "3x"),
        (" 1.5 ", "1.5x"),
        ("0.25", "0.25x"),
        (".5", "0.5x"),
        ("10", "10x"),
        ("uncapped", "uncapped"),
        ("UNCAPPED", "uncapped"),
    ],
)
def test_multipliers(text: str, name: str) -> None:
    assert str(Multiplier.parse(text, where="--x")) == name


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "1e3", "nan", "inf", "uncaped", "1,5", "٣"])
def test_what_is_no_multiplier(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--x: .* is not a multiplier"):
        Multiplier.parse(text, where="--x")


def test_a_list_names_each_multiplier_once() -> None:
    with pytest.raises(UsageError, match="2x is listed twice"):
        parse_multipliers("1,2,2.0", where="--x")


def test_crossed_sets_vary_every_given_dimension() -> None:
    one, five = ONE, Multiplier(Fraction(5))
    assert [item.id for item in crossed_sets([one, five], [one, Multiplier(None)], None)] == [
        "mem1x-cpu1x",
        "mem1x-cpuuncapped",
        "mem5x-cpu1x",
        "mem5x-cpuuncapped",
    ]
    (alone,) = crossed_sets(None, None, [five])
    assert (alone.id, alone.timeout) == ("mem1x-cpu1x-time5x", five)


def test_the_baseline_is_1x_or_the_tightest() -> None:
    def base(text: str) -> str:
        return baseline_of(joint_sets(parse_multipliers(text, where=""))).id

    assert base("3,1,uncapped") == "1x"
    assert base("uncapped,5,3") == "3x"
    assert base("0.5,0.25") == "0.25x"
    assert base("uncapped") == "uncapped"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", "1x 1x-aa"),
        ("3,1,uncapped", "3x 1x 1x-aa uncapped"),
        ("uncapped,5,3", "uncapped 5x 3x 3x-aa"),
        ("uncapped", "uncapped uncapped-aa"),
    ],
)
def test_a_control_repeats_the_baseline_which_stays_the_baseline(text: str, expected: str) -> None:
    sets = joint_sets(parse_multipliers(text, where=""))
    controlled = with_control(sets)
    assert " ".join(item.id for item in controlled) == expected
    assert baseline_of(controlled) == baseline_of(sets)
    (control,) = (item for item in controlled if item not in sets)
    assert control.sort_key == baseline_of(sets).sort_key


def test_the_guarantee_stays_and_the_limit_scales() -> None:
    for text, memory, cores in [
        ("1", 100 * MIB, 0.5),
        ("3", 300 * MIB, 1.5),
        ("0.25", 25 * MIB, 0.125),
        ("uncapped", None, None),
    ]:
        (parameter_set,) = joint_sets(parse_multipliers(text, where=""))
        given_ = allocate(SPEC, parameter_set)
        assert given_.limits == (memory, cores)
        assert given_.memory_guarantee_bytes == 100 * MIB
        assert given_.cpu_guarantee_cores == 0.5


def test_below_1x_the_reservation_follows_the_threshold() -> None:
    assert Allocation(100, 25, None, None).memory_reservation_bytes == 25
    assert Allocation(100, 300, None, None).memory_reservation_bytes == 100
    assert Allocation(100, None, None, None).memory_reservation_bytes == 100


def test_a_declared_band_scales_its_limit() -> None:
    spec = ResourceSpec(100 * MIB, 200 * MIB, 0.5, 1.0)
    given_ = allocate(spec, ParameterSet.joint(Multiplier(Fraction(3))))
    assert given_ == Allocation(100 * MIB, 600 * MIB, 0.5, 3.0)


def test_a_task_without_cpus_has_no_quota_in_any_set() -> None:
    spec = ResourceSpec.declared(100 * MIB, None)
    given_ = allocate(spec, ParameterSet.joint(Multiplier(Fraction(3))))
    assert (given_.cpu_guarantee_cores, given_.cpu_limit_cores) == (None, None)


def test_cpu_beyond_the_host_is_clamped_with_a_note() -> None:
    effective = fit(Allocation(MIB, 10 * MIB, 1, 8), HOST, clamp=False, where="t")
    assert effective.cpu_limit_cores == 2
    assert effective.notes == ("cpu limit 8 cpu clamped to 2 cpu",)


@pytest.mark.parametrize(
    ("limit", "bound", "words"),
    [(2 * GIB, GIB, "at most 1 GiB"), (MIB, 6 * MIB, "at least 6 MiB")],
)
def test_memory_beyond_the_engine_is_refused_or_clamped_in_words(
    limit: int, bound: int, words: str
) -> None:
    requested = Allocation(MIB, limit, None, None)
    with pytest.raises(UsageError, match=f"^t: kill threshold .* {words}.*--infra-clamp"):
        fit(requested, HOST, clamp=False, where="t")
    effective = fit(requested, HOST, clamp=True, where="t")
    assert effective.memory_limit_bytes == bound
    assert len(effective.notes) == 1


def test_uncapped_needs_no_fitting() -> None:
    requested = Allocation(MIB, None, None, None)
    assert fit(requested, HOST, clamp=False, where="t") == requested


multipliers = st.fractions(min_value=Fraction(1, 100), max_value=100).map(Multiplier)


@given(st.lists(multipliers, min_size=2, max_size=6, unique=True))
def test_sets_sort_as_their_multipliers(items: list[Multiplier]) -> None:
    ordered = sorted(joint_sets(items), key=lambda item: item.sort_key)
    assert [item.memory.factor for item in ordered] == sorted(item.factor for item in items)


@given(st.integers(1, 2**45), multipliers)
def test_scaling_is_exact_and_never_zero(memory: int, multiplier: Multiplier) -> None:
    given_ = allocate(ResourceSpec.declared(memory, None), ParameterSet.joint(multiplier))
    assert multiplier.factor is not None
    assert given_.memory_limit_bytes == max(1, int(float(memory * multiplier.factor)))
