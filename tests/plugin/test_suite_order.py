"""A suite keeps what it relies on: ids, the order of its tests, fixtures of wider scope."""

from collections import Counter

import pytest
from bench import Bench

MARK = '@pytest.mark.infra(memory="32M", image="x")'

DEPENDENT = f"""
import pytest

made = []

@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made.append(1)
    return tmp_path_factory.mktemp("shared")

def test_before(folder): (folder / "zero").touch()

{MARK}
def test_first(infra_sandbox, folder): (folder / "one").touch()

{MARK}
@pytest.mark.parametrize("word", ["a b", "c"])
def test_odd(infra_sandbox, folder, word): assert (folder / "one").exists()

class TestGroup:
    {MARK}
    def test_inner(self, infra_sandbox, folder): assert (folder / "one").exists()

def test_after(folder): assert len(made) == 1
"""

IDS = [
    "test_a.py::test_before",
    "test_a.py::test_first",
    "test_a.py::test_odd[a b]",
    "test_a.py::test_odd[c]",
    "test_a.py::TestGroup::test_inner",
    "test_a.py::test_after",
]


def run(bench: Bench, *args: str) -> pytest.RunResult:
    return bench.pytester.runpytest_subprocess("--infra-backend=local", *args, timeout=120)


def shown(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if line.startswith("test_") and "::" in line]


@pytest.mark.parametrize("option", [(), ("--infra-multipliers=3",), ("--infra-samples=1",)])
def test_one_set_and_sample_keep_ids_and_order(plain_bench: Bench, option: tuple[str, ...]) -> None:
    plain_bench.pytester.makepyfile(test_a=DEPENDENT)
    result = plain_bench.pytester.runpytest_inprocess("--collect-only", "-q", *option)
    assert shown(result) == IDS


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_tests_that_build_on_each_other_pass(local_bench: Bench, workers: str) -> None:
    local_bench.pytester.makepyfile(test_a=DEPENDENT)
    result = run(local_bench, workers)
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["4 tasks x 1 parameter set x 1 sample*"])
    records = local_bench.records()
    assert [record["task"] for record in records] == IDS[1:5]
    assert [record["position"] for record in records] == [0, 1, 2, 3]
    assert {record["parameter_set"] for record in records} == {"1x"}


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_old_ids_are_selected_and_deselected(local_bench: Bench, workers: str) -> None:
    local_bench.pytester.makepyfile(test_a=DEPENDENT)
    result = run(local_bench, workers, IDS[1], IDS[2], f"--deselect={IDS[1]}")
    result.assert_outcomes(failed=1, deselected=0 if workers == "-n2" else 1)
    assert [record["task"] for record in local_bench.records()] == [IDS[2]]
    again = run(local_bench, workers, "--lf", "-v")
    again.assert_outcomes(failed=1)
    assert "test_odd[a b]" in again.stdout.str()


def test_a_worker_that_dies_costs_a_record_of_the_tests_own_name(local_bench: Bench) -> None:
    local_bench.pytester.makepyfile(
        f"import os, pytest\n{MARK}\ndef test_dies(infra_sandbox): os._exit(3)\n"
        f"{MARK}\ndef test_lives(infra_sandbox): pass\n"
    )
    run(local_bench, "-n1")
    outcomes = {
        record["task"].partition("::")[2]: record["cause"] for record in local_bench.records()
    }
    assert outcomes == {"test_dies": "worker_lost", "test_lives": None}


COUNTING = """
import pytest

@pytest.fixture(scope="module", autouse=True)
def counted(request):
    with open({path!r}, "a") as file:
        print(request.module.__name__, file=file)

""" + "".join(f"{MARK}\ndef test_{name}(infra_sandbox): pass\n\n" for name in "abc")


@pytest.mark.parametrize("order", ["interleaved", "file"])
def test_a_round_sets_up_a_modules_fixtures_once(local_bench: Bench, order: str) -> None:
    log = local_bench.path / "setups"
    for name in ("test_one", "test_two"):
        local_bench.pytester.makepyfile(**{name: COUNTING.format(path=str(log))})
    result = run(
        local_bench, "-n0", "--infra-multipliers=1,2", "--infra-samples=2", f"--infra-order={order}"
    )
    result.assert_outcomes(passed=24)
    # Two rounds, and the second may begin with the module with which the first one ended.
    assert all(1 <= number <= 2 for number in Counter(log.read_text().split()).values())
    tasks = [record["task"] for record in local_bench.records()]
    assert tasks[::2] == tasks[1::2]  # sets of a task together
    in_file = [f"{file}.py::test_{name}" for file in ("test_one", "test_two") for name in "abc"]
    assert (tasks[:12:2] == in_file) is (order == "file")


def test_the_order_of_files_keeps_other_tests_where_they_are(plain_bench: Bench) -> None:
    plain_bench.pytester.makepyfile(test_a=DEPENDENT)
    arguments = ("--collect-only", "-q", "--infra-multipliers=1,2", "--infra-order=file")
    lines = shown(plain_bench.pytester.runpytest_inprocess(*arguments))
    assert [line.partition("[")[0].rpartition("::")[2] for line in lines] == [
        "test_before", *["test_first"] * 2, *["test_odd"] * 4, *["test_inner"] * 2, "test_after",
    ]  # fmt: skip
