"""Studies that end once they are decided: planned looks, and what is skipped after them."""

import json
import random
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench import BUSYBOX, Bench, hog, names
from hypothesis import given
from hypothesis import strategies as st
from test_usage_errors import refused

from pytest_infranoise.model.usage import UsageTotals
from pytest_infranoise.plugin.agent_options import AttemptSettings
from pytest_infranoise.plugin.keeper import StudyKeeper
from pytest_infranoise.plugin.looks import LookSchedule, is_decided
from pytest_infranoise.plugin.progress import WaitLine
from pytest_infranoise.plugin.repeats import Repeats
from pytest_infranoise.plugin.stopping import StopFlags
from pytest_infranoise.statistics.sequential import Look, planned_looks

AGENT = f"--infra-agent=sh -c '{hog(64)} >/dev/null && touch /app/done'"
TWO = ("--infra-multipliers=1,4", "--infra-until-decided", "--infra-max-samples=2")


# --- when a look is due ---


def schedule(max_samples: int, tasks: int) -> tuple[LookSchedule, dict[str, int]]:
    samples = {f"t{task}-s{k}": k for task in range(tasks) for k in range(1, max_samples + 1)}
    return LookSchedule(planned_looks(max_samples), samples), samples


def test_a_look_is_due_when_its_samples_have_all_ended() -> None:
    looks, _ = schedule(6, tasks=2)
    due = {
        item: [look.samples for look in looks.end(item)]
        for item in ("t0-s1", "t1-s1", "t0-s2", "t0-s3", "t1-s2", "t1-s3", "t0-s4", "t1-s4")
    }
    assert {item: samples for item, samples in due.items() if samples} == {
        "t1-s2": [2],
        "t1-s4": [4],
    }


def test_looks_that_fall_together_come_in_their_order() -> None:
    looks, samples = schedule(6, tasks=2)
    early = [item for item, sample in samples.items() if sample <= 4 and item != "t1-s1"]
    assert [look for item in early for look in looks.end(item)] == []
    assert [look.samples for look in looks.end("t1-s1")] == [2, 4]


def test_an_end_counts_once_and_strangers_never() -> None:
    looks, _ = schedule(2, tasks=2)
    assert looks.end("t0-s1") == looks.end("t0-s1") == looks.end("other") == []
    assert [look.samples for look in looks.end("t1-s1")] == [1]


@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 2**32))
def test_whatever_the_order_every_look_sees_whole_samples(
    max_samples: int, tasks: int, seed: int
) -> None:
    looks, samples = schedule(max_samples, tasks)
    items = list(samples)
    random.Random(seed).shuffle(items)  # each step drawn by hypothesis took minutes
    taken, ended = [], set()
    for item in items:
        ended.add(item)
        for look in looks.end(item):
            assert all(other in ended for other, k in samples.items() if k <= look.samples)
            taken.append(look)
    assert taken == list(planned_looks(max_samples))


@pytest.mark.parametrize(
    ("comparisons", "undecided", "expected"),
    [(("3x",), (), True), (("3x",), ("3x",), False), ((), (), False)],
)
def test_nothing_compared_is_nothing_decided(
    comparisons: tuple[str, ...], undecided: tuple[str, ...], expected: bool
) -> None:
    analysis: Any = SimpleNamespace(comparisons=comparisons, undecided=undecided)
    assert is_decided(analysis) is expected


def test_every_process_of_a_run_hears_of_the_decision(tmp_path: Path) -> None:
    keeper, worker = StopFlags(tmp_path / "run"), StopFlags(tmp_path / "run")
    assert worker.needs(5)
    keeper.decide(4)
    assert [flags.needs(sample) for flags in (keeper, worker) for sample in (4, 5)] == [
        True,
        False,
    ] * 2
    assert not worker.should_stop()
    keeper.clear()
    assert not keeper.folder.exists()


class Notebook:
    """Stands for the recorder: what a look reads, and what it notes."""

    def __init__(self) -> None:
        self.all_records: list[dict[str, Any]] = []
        self.records = self.all_records
        self.usage = UsageTotals()
        self.manifest: dict[str, Any] = {}
        self.problems: list[str] = []
        self.journal_problem: str | None = None
        self.decided_at: list[int] = []

    def take(self, report: Any) -> None:
        self.all_records.append({"cause": None})

    def decide(self, look: Look) -> None:
        self.decided_at.append(look.number)


@pytest.fixture
def keeper(tmp_path: Path) -> Any:
    """A keeper in the middle of a study: two samples of one task have not ended."""
    made: Any = object.__new__(StudyKeeper)
    settings = SimpleNamespace(attempts=AttemptSettings(0, 0.0, 0.0, 0, None))
    made.runtime = SimpleNamespace(flags=StopFlags(tmp_path / "run"), settings=settings)
    made._line = None
    made._signals = SimpleNamespace(held=nullcontext, was_stopped=False)
    made._repeats, made._waits, made._has_said_halt = Repeats(0), WaitLine(), False
    made.recorder = Notebook()
    plugins = SimpleNamespace(getplugin=lambda name: None)
    made._config = SimpleNamespace(pluginmanager=plugins)
    made._schedule = LookSchedule(planned_looks(6)[:-1], {"s1": 1, "s2": 2, "s4": 4, "s5": 5})
    return made


def end(keeper: Any, *items: str) -> None:
    for item in items:
        for when in ("setup", "call", "teardown"):
            keeper.take(SimpleNamespace(when=when, nodeid=item))


def answers(monkeypatch: pytest.MonkeyPatch, *decisions: bool) -> list[int]:
    """Let looks decide as told; return the numbers of samples at which they were asked."""
    asked: list[int] = []
    left = list(decisions)

    def decides(look: Look, records: Any, manifest: Any) -> bool:
        asked.append(look.samples)
        return left.pop(0)

    monkeypatch.setattr("pytest_infranoise.plugin.keeper.decides", decides)
    return asked


def test_no_look_follows_a_decision(keeper: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch, True)
    end(keeper, "s4", "s2", "s1", "s5")  # both looks are due with s1
    assert (asked, keeper.recorder.decided_at) == ([2], [1])
    assert keeper.runtime.flags.needs(2)
    assert not keeper.runtime.flags.needs(3)


def test_the_next_look_follows_an_open_one(keeper: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch, False, True)
    end(keeper, "s1", "s2")
    assert (asked, keeper.recorder.decided_at) == ([2], [])
    end(keeper, "s4")
    assert (asked, keeper.recorder.decided_at) == ([2, 4], [2])


def test_a_stopped_session_is_not_looked_at(keeper: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch)
    end(keeper, "s1")
    keeper.runtime.flags.stop()  # what is left is skipped, and ends without a record
    end(keeper, "s2", "s4", "s5")
    assert asked == []
    assert keeper.runtime.flags.needs(6)


def test_a_look_that_fails_costs_a_line(keeper: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch)  # has no answer: raises
    end(keeper, "s1", "s2")
    assert keeper.recorder.problems == ["look 1 failed: IndexError: pop from empty list"]
    assert keeper.runtime.flags.needs(6)


def test_a_trial_whose_worker_died_has_ended(keeper: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch, False)
    end(keeper, "s1")
    keeper.take(SimpleNamespace(when="???", nodeid="s2"))
    assert asked == [2]


# --- what cannot be used ---


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        (["--infra-until-decided"], "--infra-until-decided: name the most samples *"),
        (["--infra-max-samples=4"], "--infra-max-samples: this goes with --infra-until-decided*"),
        (
            ["--infra-until-decided", "--infra-max-samples=4", "--infra-samples=2"],
            "--infra-samples cannot be combined with --infra-until-decided*--infra-max-samples*",
        ),
        (
            ["--infra-until-decided", "--infra-max-samples=0"],
            "--infra-max-samples: 0 is less than 1",
        ),
        (
            ["--infra-until-decided", "--infra-max-samples=4", "--infra-order=sequential"],
            "--infra-until-decided cannot be combined with --infra-order=sequential*",
        ),
        (
            ["--infra-until-decided", "--infra-max-samples=4"],
            "--infra-until-decided: the agent oracle *--infra-agent*--infra-samples",
        ),
    ],
)
@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_usage_errors(plain_bench: Bench, options: list[str], pattern: str, workers: str) -> None:
    plain_bench.task("calm")
    refused(plain_bench, "--infra-multipliers=1,3", *options, workers, pattern=pattern)


@pytest.mark.parametrize("options", [(), ("--infra-multipliers=3",), ("--infra-aa",)])
def test_one_parameter_set_decides_nothing(plain_bench: Bench, options: tuple[str, ...]) -> None:
    plain_bench.task("calm")
    pattern = "--infra-until-decided: nothing can be decided with one parameter set*"
    refused(plain_bench, *TWO[1:], *options, pattern=pattern)


def test_an_ini_value_names_its_file(plain_bench: Bench) -> None:
    plain_bench.task("calm")
    plain_bench.pytester.makeini("[pytest]\ninfra_samples = 3\n")
    pattern = "*tox.ini: infra_samples cannot be combined with --infra-until-decided*"
    refused(plain_bench, *TWO, pattern=pattern)


# --- what runs ---


@pytest.fixture
def local_bench(pytester: pytest.Pytester, local_backend: Any) -> Bench:
    return Bench(pytester, "local")


def ten_tasks_that_are_rescued(bench: Bench) -> None:
    """Ten tasks of ten change, which is decided at the first of two looks (2 / 2^10 < 0.003)."""
    for number in range(10):
        bench.task(f"task-{number}")


def manifest_of(bench: Bench) -> dict[str, Any]:
    return dict(json.loads((bench.studies()[-1] / "manifest.json").read_text()))


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_what_is_decided_is_not_needed(local_bench: Bench, workers: str) -> None:
    ten_tasks_that_are_rescued(local_bench)
    result = local_bench.run(*TWO, AGENT, workers, "--infra-exit=study", "-rs")
    records = local_bench.records()
    assert len(names(records)) == len(records)
    begun = len(records) - 20
    assert len([item for item in records if item["sample"] == 1]) == 20
    assert begun < 20 if workers == "-n2" else begun == 0
    left_out = f" ({begun} of their trials *)" if begun else ""
    result.stdout.fnmatch_lines(
        [
            "infranoise: *, up to 2 sample(s) with looks after 1, 2, agent *",
            "infranoise: every parameter set is decided after 1 of 2 samples; *",
            "10 tasks x 2 parameter sets x up to 2 samples, *",
            "*, 20 of 40 trials",
            f"decided after 1 of 2 samples: later ones are not needed{left_out}",
            "1x        0       0        0   10      0 *",
            "4x *+100.0*",
            "planned look 1 of 2 at 1 of 2 samples: different at p < 0.0031, *",
        ]
    )
    result.stdout.fnmatch_lines([f"=* {20 - begun} not needed in *"])
    assert "SKIPPED" not in result.stdout.str()
    assert result.ret == 0
    manifest = manifest_of(local_bench)
    assert (manifest["samples"], manifest["decided_at_look"]) == (2, 1)
    assert [look["samples"] for look in manifest["planned_looks"]] == [1, 2]


def test_a_study_that_stays_open_runs_to_its_last_look(local_bench: Bench) -> None:
    for number in range(2):
        local_bench.task(f"task-{number}")
    result = local_bench.run(*TWO, AGENT, "-n0")
    assert len(local_bench.records()) == 8
    result.stdout.fnmatch_lines(["*, 8 of 8 trials", "planned look 2 of 2 at 2 of 2 samples: *"])
    assert "not needed" not in result.stdout.str()
    assert manifest_of(local_bench)["decided_at_look"] is None


def test_marked_tests_are_decided_too(local_bench: Bench) -> None:
    mark = f'@pytest.mark.infra(memory="32M", image="{BUSYBOX}", timeout=20)'
    local_bench.pytester.makepyfile(
        test_suite=f"""
        import pytest

        @pytest.fixture
        def costly(request):
            print("set up")

        {mark}
        @pytest.mark.parametrize("number", range(10))
        def test_work(costly, infra_sandbox, number):
            assert infra_sandbox.exec("{hog(64)}").exit_code == 0
        """
    )
    arguments = ("--infra-backend=local", "-p", "no:cacheprovider", *TWO, "-n0", "-s")
    result = local_bench.pytester.runpytest_subprocess(*arguments, timeout=240)
    assert {item["sample"] for item in local_bench.records()} == {1}
    assert result.stdout.str().count("set up") == 20
    result.stdout.fnmatch_lines(['10 tasks *, agent "test body", *', "=* 20 not needed in *"])


def test_last_failed_forgets_nothing_for_trials_that_were_not_needed(local_bench: Bench) -> None:
    ten_tasks_that_are_rescued(local_bench)
    arguments = ["bench", "--infra-backend=local", *TWO, AGENT, "-n0"]
    local_bench.pytester.runpytest_subprocess(*arguments, "--cache-clear")
    again = local_bench.pytester.runpytest_subprocess(*arguments, "--lf", "--collect-only", "-q")
    ids = [line for line in again.stdout.lines if "::" in line]
    assert len(ids) == 10
    assert all(line.endswith("::1x-s1") for line in ids)
