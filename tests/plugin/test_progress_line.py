"""The progress line of a running study: what it says, and when it says nothing."""

import re
import subprocess
import sys
from datetime import datetime

import pytest
from bench import wait_until
from hypothesis import given
from hypothesis import strategies as st

from pytest_infranoise.plugin import progress
from pytest_infranoise.plugin.progress import Durations, ProgressLine

NOW = datetime(2026, 11, 30, 18, 0)


class Clock:
    def __init__(self):
        self.seconds = 100.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def make_line(clock):
    def make(number=40, sets=("1x", "3x"), **values):
        trials = {
            f"t{n}::{name}": (f"t{n}", name, 1) for n in range(number // len(sets)) for name in sets
        }
        return ProgressLine(trials, clock=clock, now=lambda: NOW, **values), list(trials)

    return make


def record(seconds=10.0, outcome="passed", kills=0, cause=None):
    return {"wall_seconds": seconds, "outcome": outcome, "oom_kills": kills, "cause": cause}


def run(line, clock, items, *, each=10.0, **values):
    """End trials one after another; return the lines that came."""
    said = []
    for item in items:
        clock.seconds += each
        said.append(line.end(item, [record(each, **values)]))
    return [text for text in said if text is not None]


def test_a_line_says_trials_kills_and_the_end(make_line, clock):
    line, items = make_line()
    run(line, clock, items[:10])
    assert line.line() == (
        "infranoise: 10 of 40 trials ended, 30 left; no kill so far; about 5 min more, until 18:05"
    )


def test_no_end_before_enough_trials(make_line, clock):
    line, items = make_line()
    run(line, clock, items[:7])
    assert line.seconds_left() is None
    assert line.line().endswith("no kill so far")
    run(line, clock, items[7:8])
    assert line.seconds_left() == pytest.approx(320)


def test_the_more_workers_the_more_trials_are_needed(make_line, clock):
    line, items = make_line(workers=5)
    run(line, clock, items[:14])
    assert line.seconds_left() is None
    run(line, clock, items[14:15])
    assert line.seconds_left() is not None


def test_trials_side_by_side_take_less(make_line, clock):
    line, items = make_line(workers=4)
    for item in items[:20]:  # four at once: one ends every ten seconds, each took forty
        clock.seconds += 10
        line.end(item, [record(40)])
    assert line.seconds_left() == pytest.approx(200)


def test_slow_tasks_that_are_left_count_as_slow(make_line, clock):
    trials = {f"{name}{n}": (name, "1x", n) for n in range(10) for name in ("fast", "slow")}
    line = ProgressLine(trials, clock=clock, now=lambda: NOW)
    for item, seconds in [("slow0", 100), *((f"fast{n}", 1) for n in range(10))]:
        clock.seconds += seconds
        line.end(item, [record(seconds)])
    assert line.seconds_left() == pytest.approx(900)


def test_kills_stand_by_set(make_line, clock):
    line, items = make_line()
    own = [item for item in items if item.endswith("::1x")]
    run(line, clock, own[:2], outcome="oom", kills=2)
    run(line, clock, own[2:3], outcome="passed", kills=1)
    assert "kills so far: 5 at 1x;" in line.line() + ";"


def test_a_kill_by_the_host_is_none_of_the_set(make_line, clock):
    line, items = make_line()
    run(line, clock, items[:1], outcome="infra_error", kills=3, cause="host_memory")
    assert "no kill so far" in line.line()


def test_kills_that_nobody_counted_are_no_zero(make_line, clock):
    line, items = make_line()
    run(line, clock, items[:1], kills=None)
    assert "kills not counted in every trial" in line.line()
    run(line, clock, items[1:2], outcome="oom", kills=None)
    assert "kills so far: at least 1 at 3x" in line.line()


def test_many_sets_are_shortened(make_line, clock):
    sets = tuple(f"{n}x" for n in range(1, 8))
    line, items = make_line(70, sets)
    run(line, clock, items[:14], outcome="oom", kills=1)
    assert "2 at 1x, 2 at 2x, 2 at 3x, 2 at 4x, more at 3 other sets" in line.line()


def test_trials_of_earlier_sessions_are_counted_but_no_measure(make_line, clock):
    line, items = make_line(finished=60)
    run(line, clock, items[:10])
    assert "70 of 100 trials ended, 30 left" in line.line()
    assert line.seconds_left() == pytest.approx(300)


def test_a_trial_that_did_not_run_is_gone_without_a_duration(make_line, clock):
    line, items = make_line()
    run(line, clock, items[:10])
    for item in items[10:30]:
        line.end(item, [])
    assert "30 of 40 trials ended, 10 left" in line.line()
    assert line.seconds_left() == pytest.approx(100)


def test_other_items_are_none_of_ours(make_line, clock):
    line, items = make_line()
    assert line.end("test_other.py::test_it", []) is None
    line.end(items[0], [record()])
    assert line.end(items[0], []) is None  # twice
    assert "1 of 40" in line.line()


def test_a_study_that_may_be_decided_early_ends_then_at_most(make_line, clock):
    line, items = make_line(is_bounded=True)
    run(line, clock, items[:10])
    assert "at most about 5 min more" in line.line()


def test_nothing_in_the_first_half_minute_and_nothing_at_the_end(make_line, clock):
    line, items = make_line(4)
    assert run(line, clock, items, each=7) == []
    line, items = make_line(4)
    assert run(line, clock, items[3:], each=9999) != []
    assert run(line, clock, items[:3], each=9999)[-1].startswith("infranoise: 3 of 4")


@pytest.mark.parametrize(
    ("is_watched", "each", "expected"),
    [
        (True, 10.0, 6),  # every minute of seven: the last has the summary
        (True, 1.0, 0),
        (True, 600.0, 39),  # with every trial
        (False, 10.0, 9),  # every tenth
        (False, 1.0, 1),  # a tenth would come too often: not within half a minute
        (False, 400.0, 39),
    ],
)
def test_how_often_lines_come(is_watched, each, expected, make_line, clock):
    line, items = make_line(is_watched=is_watched)
    assert len(run(line, clock, items, each=each)) == expected


def test_a_log_of_a_large_study_gets_a_line_every_five_minutes(make_line, clock):
    line, items = make_line(4000)
    assert len(run(line, clock, items[:300], each=10)) == 10


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (5, "about 1 min more, until 18:00"),
        (42 * 60, "about 42 min more, until 18:42"),
        (202 * 60, "about 3 h 20 min more, until 21:22"),
        (3600, "about 1 h more, until 19:00"),
        (7 * 3600, "about 7 h more, until Tue 01 Dec, 01:00"),
        (50 * 3600, "about 50 h more, until Wed 02 Dec, 20:00"),
    ],
)
def test_an_end_is_said_no_more_exactly_than_it_is_known(seconds, words):
    assert progress._end_words(seconds, NOW, is_bounded=False) == words


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.floats(0, 1e4)), min_size=1
    ),
    st.dictionaries(
        st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz")), st.integers(0, 50), max_size=8
    ),
)
def test_what_is_expected_lies_between_the_extremes(ended, left):
    durations = Durations()
    for task, name, seconds in ended:
        durations.add((task, name), seconds)
    number = sum(left.values())
    low, high = min(s for *_, s in ended), max(s for *_, s in ended)
    expected = durations.expected(left)
    assert low * number * (1 - 1e-9) <= expected <= high * number * (1 + 1e-9)


def test_nothing_is_expected_before_a_trial_has_ended():
    assert Durations().expected({("a", "x"): 3}) is None


EAGER = """
from pytest_infranoise.plugin import progress
progress.FIRST_SECONDS = progress.TERMINAL_SECONDS = 0
progress.LOG_SHARE = 0.01
"""
LINE = re.compile(r"^infranoise: (\d+) of 6 trials ended, (\d+) left; .*$", re.MULTILINE)
SWEEP = ("--infra-multipliers=1,4", "--infra-samples=1", "--infra-exit=study")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), ["1", "2", "3", "4", "5"]),
        (("-n", "2"), ["1", "2", "3", "4", "5"]),
        (("-s",), ["1", "2", "3", "4", "5"]),
        (("-v",), ["1", "2", "3", "4", "5"]),
        (("-q",), []),
    ],
    ids=["plain", "xdist", "no-capture", "verbose", "quiet"],
)
def test_lines_of_a_real_run(options, expected, local_bench):
    local_bench.standard()
    (local_bench.path / "conftest.py").write_text(EAGER)
    result = local_bench.run(*SWEEP, *options)
    text = result.stdout.str()
    assert result.ret == 0
    assert [match[1] for match in LINE.finditer(text)] == expected
    if expected:
        ended = [item["outcome"] for item in local_bench.records()][:5]
        last = [match[0] for match in LINE.finditer(text)][-1]
        assert ("kills so far: 1 at 1x" if "oom" in ended else "no kill so far") in last


def test_a_run_without_a_study_prints_none(local_bench):
    (local_bench.path / "conftest.py").write_text(EAGER)
    (local_bench.path / "bench").mkdir()
    (local_bench.path / "bench" / "test_plain.py").write_text("def test_a(): pass\n" * 3)
    assert "infranoise: " not in local_bench.run().stdout.str()


def test_a_report_on_a_study_that_is_still_running_says_so(local_bench):
    local_bench.task("quick")
    local_bench.task("long", "sleep 20; touch /app/done")
    process = local_bench.start(*SWEEP, "--infra-order=sequential", "--infra-agent=oracle")
    try:
        study = wait_until(lambda: next(iter(local_bench.studies()), None))
        journal = study / "trials.jsonl"
        wait_until(lambda: journal.exists() and journal.read_text().count("\n") >= 1)
        command = [sys.executable, "-m", "pytest_infranoise", "report", str(study)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert "the study has not ended" in done.stdout
        assert re.search(r"[123] of 4 trials", done.stdout)
        assert process.poll() is None
    finally:
        process.terminate()
        process.communicate(timeout=60)
