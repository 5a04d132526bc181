"""What a written report says, before anybody renders it."""

import pytest
from written import MIB, a_manifest, a_page, a_record, a_view, some_records

from pytest_infranoise.analysis.words import verdict_lines
from pytest_infranoise.analysis.words_answer import FIT_ONLY
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.report.page.about import MANIFEST_CHARACTERS, manifest_text
from pytest_infranoise.report.page.gather import OUTPUT_CHARACTERS, TRIALS_SHOWN
from pytest_infranoise.report.page.tasks import CELLS_AT_MOST, SHOWN_AT_ONCE
from pytest_infranoise.report.terminal import summary_lines


def test_every_sentence_of_the_verdict_is_said_once():
    page = a_page()
    said = [page.headline, *page.answer, *page.verdict]
    assert [line.split(":")[0] for line in said[:4]] == ["threshold", "score", "noise", "next"]
    assert a_view().analysis.to_json()["answer"] == said[:4]
    assert said == verdict_lines(a_view().analysis)


def test_the_tables_are_those_of_the_terminal():
    page = a_page()
    printed = [line.text.split() for line in summary_lines(a_view())]
    for table in (page.sets, page.comparisons):
        for row in table.rows:
            assert " ".join(row).split() in printed


def test_the_reference_solution_is_called_that_at_the_head():
    assert (
        a_page(manifest=a_manifest(agent={"name": "oracle"})).headline == f"threshold: {FIT_ONLY}"
    )


def test_a_study_without_a_trial_is_a_page_all_the_same():
    page = a_page([])
    assert page.headline == "no trial has an outcome: nothing to analyse"
    assert (page.success, page.timeline, page.methods, page.trials) == (None, None, (), ())


def test_charts_hold_the_figures_of_the_analysis():
    page, analysis = a_page(), a_view().analysis
    assert [item.label for item in page.success.estimates] == ["1x", "3x", "uncapped"]
    assert page.success.estimates[0].value == analysis.set("1x").success.macro == 0.5
    assert page.infra_errors.estimates[0].ci95 == analysis.set("1x").infra_error.ci95
    assert page.success.is_ladder
    effect = page.lift.effects[0]
    assert effect.difference == analysis.comparison("3x").success.difference
    assert effect.words.startswith("+50.0 points (95% CI ")


def test_sets_stand_by_growing_limits_and_others_unconnected():
    shuffled = ("3x", "uncapped", "1x")
    page = a_page(some_records(sets=shuffled), a_manifest(sets=shuffled))
    assert [item.label for item in page.success.estimates] == ["1x", "3x", "uncapped"]
    named = ("small", "big")
    page = a_page(some_records(sets=named), a_manifest(sets=named))
    assert [item.label for item in page.success.estimates] == ["small", "big"]
    assert not page.success.is_ladder


@pytest.mark.parametrize(
    ("values", "words", "share", "is_killed"),
    [
        ({}, "peak 48 MiB of 64 MiB", 0.75, False),
        (
            {"oom_kills": 2, "memory_peak_bytes": 64 * MIB},
            "peak 64 MiB of 64 MiB, 2 kills",
            1,
            True,
        ),
        ({"memory_peak_bytes": None}, "peak unknown", None, False),
        ({"memory_limit_bytes": None}, "peak 48 MiB, limit unknown", None, False),
        ({"memory_limit_bytes": 0}, "peak 48 MiB of 0 B", None, False),
        ({"oom_kills": None}, "peak 48 MiB of 64 MiB", 0.75, False),
    ],
)
def test_peaks_stand_beside_the_threshold(values, words, share, is_killed):
    records = [a_record("calm", "1x", 1, "passed", **values), a_record("calm", "3x", 1, "passed")]
    cell = a_page(records).tasks.first[0].cells[0]
    assert (cell.peak.words, cell.peak.share, cell.peak.is_killed) == (words, share, is_killed)


def test_an_uncapped_peak_has_no_share():
    peak = a_page().tasks.first[0].cells[2].peak
    assert (peak.words, peak.share) == ("peak 48 MiB, uncapped", None)


def test_where_no_peak_is_known_none_is_named():
    records = [a_record("calm", "1x", 1, "passed", memory_peak_bytes=None)]
    assert all(cell.peak is None for cell in a_page(records).tasks.first[0].cells)


def test_the_highest_peak_of_first_attempts_counts():
    records = [
        a_record("calm", "1x", 1, "passed", memory_peak_bytes=10 * MIB),
        a_record("calm", "1x", 2, "passed", memory_peak_bytes=20 * MIB),
        a_record("calm", "1x", 2, "passed", attempt=2, memory_peak_bytes=60 * MIB),
    ]
    page = a_page(records)
    assert page.tasks.first[0].cells[0].peak.words == "peak 20 MiB of 64 MiB"
    assert "1 later attempt kept out of every rate" in page.warnings


def test_a_task_that_never_ran_in_a_set_has_no_count():
    page = a_page([a_record("calm", "1x", 1, "passed")])
    assert [cell.counts for cell in page.tasks.first[0].cells] == [((Outcome.PASSED, 1),), (), ()]


def test_in_a_large_study_the_restless_tasks_come_first_and_none_is_lost():
    tasks = [f"t{number:03}" for number in range(90)]
    page = a_page(some_records(tasks, samples=1), a_manifest(tasks))
    assert page.tasks.first[0].task == "t089"
    assert len(page.tasks.first) == SHOWN_AT_ONCE
    shown = [row.task for row in (*page.tasks.first, *page.tasks.others)]
    assert sorted(shown) == tasks
    assert page.tasks.left_out == 0


def test_the_number_of_cells_is_bounded():
    tasks = [f"t{number}" for number in range(CELLS_AT_MOST // 3 + 50)]
    page = a_page(some_records(tasks, samples=1), a_manifest(tasks))
    assert 3 * (len(page.tasks.first) + len(page.tasks.others)) <= CELLS_AT_MOST
    assert page.tasks.left_out == 50


def test_the_timeline_holds_every_trial():
    page = a_page()
    for lane in page.timeline.lanes:
        assert sum(map(sum, lane.slices)) == 8
    assert page.timeline.lanes[0].words == "8 trials: 4 passed, 4 oom"
    assert page.timeline.begin == "2026-12-01 10:01:00 UTC"
    assert page.timeline.end == "2026-12-01 10:04:00 UTC"
    assert len(page.timeline.drift) == 2


def test_without_times_blocks_are_the_time_and_without_both_there_is_none():
    records = [{**record, "started_at": None} for record in some_records()]
    assert (a_page(records).timeline.begin, a_page(records).timeline.end) == ("block 1", "block 4")
    assert a_page([{**record, "block": None} for record in records]).timeline is None


def test_one_moment_is_a_timeline_too():
    page = a_page([a_record("calm", "1x", 1, "passed")])
    assert page.timeline.most == 1
    assert page.timeline.begin == page.timeline.end


def test_special_trials_are_bounded_and_their_output_is_its_end():
    outputs = [{"phase": "agent", "exit_code": 137, "output": "x" * 10_000_000 + "the end"}]
    records = [a_record("hungry", "1x", n, "oom", phases=outputs) for n in range(1, 61)]
    page = a_page(records)
    assert (len(page.trials), page.trials_left_out) == (TRIALS_SHOWN, 60 - TRIALS_SHOWN)
    [(heading, output)] = page.trials[0].outputs
    assert heading == "agent, exit code 137, the end of its output"
    assert len(output) == OUTPUT_CHARACTERS
    assert output.endswith("the end")
    assert page.trials[0].heading == ("OOM hungry 1x-s1 ended_phase: killed in agent, limit 64 MiB")


def test_what_is_unknown_is_called_so():
    bare = {"study": "s", "baseline": "1x", "tasks": [], "equal_sets": [],
            "parameter_sets": [{"id": "1x"}, {"id": "3x"}]}  # fmt: skip
    page = a_page(manifest=bare)
    facts = dict(page.facts)
    assert facts.pop("study") == "s"
    assert facts.pop("disclosed") == "nothing"
    assert facts.pop("memory of the host") == "unknown, swap unknown"
    assert facts.pop("load at start, end") == "unknown, unknown"
    assert set(facts.values()) == {"unknown"}
    record = a_record("a", "1x", 1, "oom", started_at=None, wall_seconds=None, oom_kills=None)
    assert a_page([record]).trials[0].facts == (
        "attempt started at an unknown time, duration unknown, kills not counted"
    )


def test_warnings_name_what_a_reader_must_know():
    manifest = a_manifest(
        notes=["tasks share a network"],
        oracle_screen=[{"task": "broken", "reason": "failed"}, {"task": "calm", "reason": None}],
    )
    page = a_page(manifest=manifest, planned=30)
    assert page.warnings == (
        "6 of 30 planned trials have no result",
        "tasks share a network",
        "left out by the oracle screen: broken: failed",
    )


def test_a_manifest_is_whole_json_and_ascii_until_it_is_too_long():
    text = manifest_text(a_manifest(notes=["\u202e\x1b\ud800"]))
    assert text.isascii()
    assert '"notes": ["\\u202e\\u001b\\ud800"]' in text
    assert '"command_line": ["pytest", "bench", "--infra-multipliers=1,3,uncapped"]' in text
    long = manifest_text(a_manifest([f"task-{number:06}" for number in range(30_000)]))
    assert len(long) < MANIFEST_CHARACTERS + 100
    assert long.endswith("... (cut; the study's manifest.json has the rest)")


def test_gates_are_said_as_the_terminal_says_them():
    page = a_page(gates=["no-oom@1x", "infra_error_rate<=2%@3x"])
    [failed, other] = page.gates
    assert failed.startswith("gate failed: no-oom@1x: ")
    assert other.startswith("gate ")
    assert a_page().gates == ()
