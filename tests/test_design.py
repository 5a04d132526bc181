import json
import subprocess
import sys
import time
from collections import defaultdict
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_infranoise.design import (
    TrialOrder,
    agent_timeout,
    allocate_task,
    effective_allocations,
    equal_sets,
    trial_seed,
)
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.resources import (
    Capacity,
    Multiplier,
    ParameterSet,
    ResourceSpec,
    crossed_sets,
    joint_sets,
    parse_multipliers,
)
from pytest_infranoise.model.task import ImageSource, Task
from pytest_infranoise.units import GIB, MIB

HOST = Capacity(memory_bytes=8 * GIB, cpu_cores=2)


def make_task(name="spike", memory=96 * MIB, cores=0.25, timeout=60.0):
    spec = ResourceSpec.declared(memory, cores)
    image = ImageSource(docker_image="python:3.11")
    return Task(name, "sha256:0", spec, image, agent_timeout_seconds=timeout)


def sets_of(text):
    return joint_sets(parse_multipliers(text, where="test"))


def numbers(text):
    return parse_multipliers(text, where="test")


class Planned(NamedTuple):
    task: str
    parameter_set: ParameterSet
    sample: int
    block: int
    position: int
    seed: int


def plans_of(tasks, sets, *, samples=3, seed=7, order="interleaved", first_sample=1):
    """The whole design in its order."""
    by_id = {item.id: item for item in sets}
    rounds = range(first_sample, first_sample + samples)
    trials = [(task.name, name, sample) for task in tasks for name in by_id for sample in rounds]
    places = TrialOrder(seed, tuple(by_id), order).places(trials)
    return [
        Planned(task, by_id[name], sample, *place, trial_seed(seed, task, sample))
        for (task, name, sample), place in places.items()
    ]


def address(plan):
    return (plan.task, plan.parameter_set.id, plan.sample)


TASKS = [make_task(name) for name in ("spike", "lean", "bench/spike", "täsk", "e")]
SETS = sets_of("1,3,uncapped")

names = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=6, unique=True)


class TestInterleavedOrder:
    @settings(max_examples=50, deadline=None)
    @given(names=names, samples=st.integers(1, 4), seed=st.integers())
    def test_rounds_hold_blocks_and_blocks_hold_every_set_once(self, names, samples, seed):
        tasks = [make_task(name) for name in names]
        plans = plans_of(tasks, SETS, samples=samples, seed=seed)

        assert [plan.position for plan in plans] == list(range(len(plans)))
        assert len(plans) == len(names) * samples * len(SETS)
        width = len(SETS)
        blocks = [plans[start : start + width] for start in range(0, len(plans), width)]
        for number, block in enumerate(blocks):
            assert {plan.block for plan in block} == {number}
            assert len({(plan.task, plan.sample) for plan in block}) == 1
            assert {plan.parameter_set for plan in block} == set(SETS)
        assert [block[0].sample for block in blocks] == sorted(
            sample for sample in range(1, samples + 1) for _ in names
        )
        for sample in range(1, samples + 1):
            assert {b[0].task for b in blocks if b[0].sample == sample} == set(names)

    def test_order_depends_on_the_seed_only(self):
        first = plans_of(TASKS, SETS, seed=1)
        assert first == plans_of(list(reversed(TASKS)), SETS, seed=1)
        assert [address(p) for p in first] == [
            address(p) for p in plans_of(TASKS, tuple(reversed(SETS)), seed=1)
        ]
        assert first != plans_of(TASKS, SETS, seed=2)

    def test_order_is_the_same_in_a_process_with_other_hashes(self):
        program = (
            "import json\n"
            "from pytest_infranoise.design import TrialOrder, trial_seed\n"
            "order = TrialOrder(7, ('1x', '3x'))\n"
            "print(json.dumps([order.key(t, s, 2) for t in 'abc' for s in order.sets]"
            " + [trial_seed(7, 'a', 1)]))"
        )
        outputs = {
            subprocess.run(
                [sys.executable, "-c", program],
                env={"PYTHONHASHSEED": seed},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for seed in ("1", "2")
        }
        order = TrialOrder(7, ("1x", "3x"))
        here = [order.key(task, item, 2) for task in "abc" for item in order.sets]
        assert len(outputs) == 1
        assert json.loads(outputs.pop()) == json.loads(json.dumps([*here, trial_seed(7, "a", 1)]))

    def test_a_selection_keeps_the_order(self):
        whole = [address(plan) for plan in plans_of(TASKS, SETS)]
        some = [address(plan) for plan in plans_of(TASKS[1:4], SETS)]
        assert some == [item for item in whole if item in set(some)]

    def test_places_do_not_depend_on_where_the_trials_come_from(self):
        trials = [address(plan) for plan in plans_of(TASKS, SETS)]
        order = TrialOrder(7, tuple(item.id for item in SETS))
        assert order.places(reversed(trials)) == order.places(trials)

    def test_every_place_in_a_block_is_taken_by_every_set(self):
        """Shuffling is fair: over 400 blocks each set stands first about as often as the others."""
        plans = plans_of([make_task(f"t{n}") for n in range(100)], SETS, samples=4)
        first = defaultdict(int)
        for plan in plans[:: len(SETS)]:
            first[plan.parameter_set.id] += 1
        # 5 standard deviations of a binomial with n = 400, p = 1/3
        assert all(abs(count - 400 / 3) < 5 * (400 * 2 / 9) ** 0.5 for count in first.values())

    def test_tasks_are_shuffled_anew_in_every_round(self):
        plans = plans_of([make_task(f"t{n}") for n in range(20)], SETS, samples=2)
        rounds = [[p.task for p in plans[:: len(SETS)] if p.sample == s] for s in (1, 2)]
        assert rounds[0] != rounds[1]
        assert sorted(rounds[0]) == sorted(rounds[1])


def test_sequential_order_runs_set_after_set_with_the_same_blocks():
    plans = plans_of(TASKS, SETS, order="sequential")
    sets = [plan.parameter_set.id for plan in plans]
    assert sets == [item.id for item in SETS for _ in range(len(TASKS) * 3)]
    blocks = {(p.task, p.sample): p.block for p in plans_of(TASKS, SETS)}
    assert {(p.task, p.sample, p.block) for p in plans} == {(*k, b) for k, b in blocks.items()}


def test_samples_can_count_on():
    later = plans_of(TASKS, SETS, samples=2, first_sample=4)
    whole = plans_of(TASKS, SETS, samples=5)
    assert [address(p) for p in later] == [address(p) for p in whole if p.sample >= 4]


def test_trial_seeds_are_31_bits_and_the_same_over_sets():
    seeds = defaultdict(set)
    for plan in plans_of(TASKS, SETS):
        seeds[plan.task, plan.sample].add(plan.seed)
    assert all(len(found) == 1 for found in seeds.values())
    values = [value for found in seeds.values() for value in found]
    assert len(set(values)) == len(values)
    assert all(0 <= value < 2**31 for value in values)
    # part of the contract: an agent gets the same seed in every version of this package
    assert trial_seed(7, "spike", 1) == 1993486332


@pytest.mark.parametrize(
    ("declared", "multiplier", "expected"),
    [(60.0, "1", 60.0), (60.0, "1.5", 90.0), (60.0, "uncapped", None), (None, "3", None)],
)
def test_timeouts_scale_by_the_timeout_multiplier_only(declared, multiplier, expected):
    task = make_task(timeout=declared)
    (by_time,) = crossed_sets(None, None, numbers(multiplier))
    assert agent_timeout(task, by_time) == expected
    assert agent_timeout(task, ParameterSet.joint(Multiplier(Fraction(5)))) == declared


class TestAllocations:
    def test_guarantee_stays_and_limit_scales(self):
        table = effective_allocations([make_task()], sets_of("0.5,1,3,uncapped"), HOST, clamp=False)
        given = table.allocations["spike"]
        assert {i: a.effective.memory_limit_bytes for i, a in given.items()} == {
            "0.5x": 48 * MIB,
            "1x": 96 * MIB,
            "3x": 288 * MIB,
            "uncapped": None,
        }
        assert {a.effective.memory_guarantee_bytes for a in given.values()} == {96 * MIB}
        assert table.equal_sets == ()

    def test_all_that_cannot_be_enforced_is_one_error(self):
        tasks = [make_task("a", 2 * GIB), make_task("b"), make_task("c", 3 * GIB)]
        with pytest.raises(UsageError) as error:
            effective_allocations(tasks, sets_of("1,3,5"), HOST, clamp=False)
        lines = str(error.value).splitlines()
        assert [line.split(":")[0] for line in lines] == [
            "task a, parameter set 5x",
            "task c, parameter set 3x",
            "task c, parameter set 5x",
        ]
        assert "10 GiB" in lines[0]
        assert all("--infra-clamp" in line for line in lines)

    def test_a_long_list_of_errors_is_grouped(self):
        tasks = [make_task(f"t{n}", 4 * GIB) for n in range(30)]
        with pytest.raises(UsageError) as error:
            effective_allocations(tasks, sets_of("1,3"), HOST, clamp=False)
        lines = str(error.value).splitlines()
        assert len(lines) == 2
        assert lines[1].startswith("  30 of this kind, also: task t1, parameter set 3x; ")

    def test_a_single_task_names_its_own_errors(self):
        with pytest.raises(UsageError, match=r"task spike, parameter set 3x: .* 12 GiB"):
            allocate_task(make_task(memory=4 * GIB), SETS, HOST, clamp=False)

    def test_clamp_labels_sets_that_become_equal(self):
        tasks = [make_task("a", 4 * GIB, cores=1), make_task("b", 5 * GIB, cores=1)]
        table = effective_allocations(tasks, sets_of("1,3,5,uncapped"), HOST, clamp=True)
        assert table.equal_sets == (("3x", "5x"),)
        clamped = table.allocations["a"]["5x"].effective
        assert clamped.memory_limit_bytes == 8 * GIB
        assert clamped.notes


CPU = numbers("1,8,16,uncapped")


@pytest.mark.parametrize(
    ("sets", "task", "pairs"),
    [
        (crossed_sets(None, numbers("1,2"), None), make_task(cores=None), ["mem1x-cpu1x"]),
        (crossed_sets(None, numbers("1,2"), None), make_task(cores=0.25), []),
        (crossed_sets(None, CPU[:3], None), make_task(cores=0.25), ["mem1x-cpu8x"]),
        (crossed_sets(None, CPU[1:], None), make_task(cores=0.2), ["mem1x-cpu16x"]),
        (crossed_sets(None, None, numbers("1,2")), make_task(timeout=None), ["mem1x-cpu1x-time1x"]),
        (crossed_sets(None, None, numbers("1,2")), make_task(timeout=5), []),
    ],
    ids=[
        "no cpus declared",
        "cpus declared",
        "both clamped to all cores",
        "all cores is as good as uncapped",
        "no timeout declared",
        "timeout declared",
    ],
)
def test_sets_that_come_out_equal_are_refused_unless_clamped(sets, task, pairs):
    table = effective_allocations([task], sets, HOST, clamp=True)
    assert [first for first, _ in table.equal_sets] == pairs
    if not pairs:
        assert effective_allocations([task], sets, HOST, clamp=False).equal_sets == ()
        return
    with pytest.raises(UsageError) as error:
        effective_allocations([task], sets, HOST, clamp=False)
    for part in (f"parameter sets {pairs[0]} and ", "task spike", "96 MiB", "--infra-clamp"):
        assert part in str(error.value)


def test_sets_that_differ_for_one_task_only_are_a_contrast():
    sets = crossed_sets(None, numbers("1,2"), None)
    tasks = [make_task("without", cores=None), make_task("with", cores=0.5)]
    assert effective_allocations(tasks, sets, HOST, clamp=False).equal_sets == ()


def test_a_control_with_the_same_multipliers_is_no_mistake():
    control = ParameterSet("1x-control", SETS[0].memory, SETS[0].cpu)
    tasks = [make_task()]
    table = effective_allocations(tasks, [*SETS, control], HOST, clamp=False)
    assert equal_sets(tasks, [*SETS, control], table.allocations, HOST) == []


def test_a_large_study_is_planned_at_once():
    tasks = [make_task(f"bench/t{n}") for n in range(89)]
    sets = sets_of("1,1.5,2,3,5,uncapped")
    best = min(timed(lambda: plans_of(tasks, sets, samples=10)) for _ in range(3))
    assert best < 0.5  # measured: 0.04 s


def timed(call):
    began = time.process_time()
    call()
    return time.process_time() - began
