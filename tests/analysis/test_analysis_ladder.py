import pytest

from pytest_infranoise.analysis.ladder import BY_NAME, JOINT, build_ladder, known_sets, parse_set
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.resources import (
    ParameterSet,
    crossed_sets,
    joint_sets,
    parse_multipliers,
)


def ladder(names, *, sets=(), baseline=None, dimension=None):
    return build_ladder(names, known_sets(names, sets), baseline=baseline, dimension=dimension)


def multipliers(text):
    return parse_multipliers(text, where="test")


@pytest.mark.parametrize(
    "sets",
    [
        joint_sets(multipliers("1,1.5,0.25,uncapped")),
        crossed_sets(multipliers("1,3"), multipliers("1,uncapped"), None),
        crossed_sets(multipliers("1"), multipliers("2"), multipliers("1,2.5")),
    ],
)
def test_ids_are_read_back(sets):
    assert [parse_set(item.id) for item in sets] == list(sets)


@pytest.mark.parametrize("name", ["small", "", "x", "mem3x", "3y", "mem3x-cpuy", "1e3x"])
def test_other_names_are_none(name):
    assert parse_set(name) is None


def test_joint_multipliers_in_any_order():
    found = ladder(["uncapped", "3x", "0.5x", "1x", "2x"])
    assert found.baseline == "1x"
    assert found.steps == ("1x", "2x", "3x", "uncapped")
    assert found.above == ("2x", "3x", "uncapped")
    assert found.candidates == ("2x", "3x")
    assert found.dimension == JOINT


def test_sets_below_the_declared_spec_stay_out():
    found = ladder(["0.25x", "0.5x"])
    assert (found.baseline, found.steps, found.candidates) == ("0.25x", (), ())


def test_a_chosen_baseline():
    found = ladder(["1x", "2x", "3x"], baseline="2x")
    assert (found.baseline, found.above) == ("2x", ("3x",))
    assert found.steps == ("1x", "2x", "3x")
    with pytest.raises(UsageError, match="'9x' is not a parameter set"):
        ladder(["1x"], baseline="9x")


@pytest.mark.parametrize(
    ("sets", "dimension"),
    [
        (crossed_sets(multipliers("1,3,5"), None, None), "memory"),
        (crossed_sets(None, multipliers("1,2"), None), "cpu"),
        (crossed_sets(None, None, multipliers("1,2")), "timeout"),
        (crossed_sets(multipliers("1,3"), multipliers("2"), None), "memory"),
    ],
)
def test_one_varying_dimension(sets, dimension):
    found = ladder([item.id for item in sets], sets=sets)
    assert found.dimension == dimension
    assert len(found.steps) == len(sets)


def test_a_cross_product_needs_a_choice():
    sets = crossed_sets(multipliers("1,3,5"), multipliers("1,2"), None)
    names = [item.id for item in sets]
    found = ladder(names)
    assert found.steps == ()
    assert found.problem == "memory and CPU vary on their own; choose one dimension to follow"
    followed = ladder(names, dimension="memory")
    assert followed.steps == ("mem1x-cpu1x", "mem3x-cpu1x", "mem5x-cpu1x")
    assert ladder(names, dimension="cpu").candidates == ("mem1x-cpu2x",)
    with pytest.raises(UsageError, match="none of memory, cpu, timeout"):
        ladder(names, dimension="disk")


def test_given_sets_win_over_ids():
    one, three = joint_sets(multipliers("1,3"))
    sets = [
        ParameterSet("tight", one.memory, one.cpu),
        ParameterSet("wide", three.memory, three.cpu),
    ]
    found = ladder(["wide", "tight"], sets=sets)
    assert (found.baseline, found.candidates, found.dimension) == ("tight", ("wide",), JOINT)


def test_names_that_say_nothing_keep_their_order():
    found = ladder(["default", "uncapped", "large"])
    assert found.baseline == "default"
    assert found.steps == ("default", "large", "uncapped")
    assert found.candidates == ("large",)
    assert found.dimension == BY_NAME
    assert ladder(["default", "large"], baseline="large").baseline == "large"


@pytest.mark.parametrize(
    ("names", "largest"),
    [
        (["1x", "2x", "3x", "5x"], "3x"),
        (["1x", "1.5x", "5x"], "1.5x"),
        (["1x", "5x", "uncapped"], None),
        (["mem1x-cpu1x", "mem2.9x-cpu1x"], "mem2.9x-cpu1x"),
        (["a", "b"], None),
    ],
)
def test_the_moderate_end_of_the_band(names, largest):
    assert ladder(names).largest_up_to(3, known_sets(names, ())) == largest


@pytest.mark.parametrize(
    ("names", "dimension", "words"),
    [
        (
            ("1x", "3x"),
            "cpu",
            "scales CPU alone; leave the option out, or run the study with --infra-cpu-m",
        ),
        (("1x", "3x"), "timeout", "no set of this study scales timeout; it has memory and cpu"),
        (("mem1x-cpu1x", "mem3x-cpu1x"), "cpu", "no set of this study scales CPU; it has memory"),
        (
            ("mem1x-cpu1x", "mem1x-cpu3x"),
            "memory",
            "no set of this study scales memory; it has cpu",
        ),
    ],
)
def test_a_dimension_that_no_set_varies_is_said(names, dimension, words):
    with pytest.raises(UsageError) as error:
        ladder(names, dimension=dimension)
    assert words in str(error.value)


def test_a_dimension_of_sets_that_are_names_alone_is_refused():
    with pytest.raises(UsageError, match="what the sets of this study scale is unknown"):
        ladder(["small", "large"], dimension="memory")


def test_a_study_of_one_set_has_nothing_to_choose():
    assert ladder(["1x"], dimension="cpu").candidates == ()
