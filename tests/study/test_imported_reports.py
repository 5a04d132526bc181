"""SWE-bench's reports and Terminal-Bench 1's runs as studies."""

import json
from collections import Counter

import pytest

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.outcome import Cause, Outcome
from pytest_infranoise.model.usage import Usage
from pytest_infranoise.study.imported_study import import_runs
from pytest_infranoise.study.imported_swebench import read_swebench
from pytest_infranoise.study.imported_terminal_bench import FAILURE_MODES, read_terminal_bench
from pytest_infranoise.study.store import load_study

INFRA = Outcome.INFRA_ERROR
REPORT = {
    "total_instances": 7,
    "submitted_instances": 6,
    "completed_instances": 4,
    "resolved_instances": 2,
    "unresolved_instances": 2,
    "empty_patch_instances": 1,
    "error_instances": 1,
    "resolved_ids": ["a__a-2", "a__a-1"],
    "unresolved_ids": ["a__a-3", "b__b-1"],
    "empty_patch_ids": ["b__b-2"],
    "error_ids": ["b__b-3"],
    "incomplete_ids": ["c__c-1"],
    "infra_failure_ids": ["b__b-1"],
    "failure_reasons": {"b__b-1": "out_of_memory", "a__a-3": "missing_module"},
    "schema_version": 2,
}
"""A report as swebench 5.0 writes it (its lists, without those of images)."""


@pytest.fixture
def report(tmp_path):
    def write(**values):
        file = tmp_path / "me.run-1.json"
        kept = {key: value for key, value in {**REPORT, **values}.items() if value is not ...}
        file.write_text(json.dumps(kept))
        return file

    return write


def test_a_report_has_the_counts_that_it_states(report):
    run = read_swebench(report(), agent="me")
    found = {trial.task: (trial.outcome, trial.cause, trial.detail) for trial in run.trials}
    assert found == {
        "a__a-1": (Outcome.PASSED, None, None),
        "a__a-2": (Outcome.PASSED, None, None),
        "a__a-3": (Outcome.FAILED, None, "missing_module"),
        "b__b-1": (INFRA, Cause.HARNESS, "out_of_memory"),  # seen in a log: no proof of a kill
        "b__b-2": (Outcome.FAILED, None, "the prediction was empty"),
        "b__b-3": (INFRA, Cause.HARNESS, "error_ids"),
    }
    assert run.left_out == {"no prediction": 1}
    assert "1 unresolved instance(s) count as infra errors" in run.notes[0]
    assert run.agent["name"] == "me"
    assert all(trial.started_at is trial.wall_seconds is None for trial in run.trials)


def test_a_report_of_an_older_harness(report):
    older = dict.fromkeys(("infra_failure_ids", "failure_reasons", "schema_version"), ...)
    run = read_swebench(report(**older))
    counts = Counter(trial.outcome for trial in run.trials)
    assert counts == {Outcome.PASSED: 2, Outcome.FAILED: 3, INFRA: 1}
    assert run.notes == ()


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"schema_version": 3}, "schema_version: 3 is not 1 or 2"),
        ({"resolved_ids": ...}, "resolved_ids: is missing"),
        ({"unresolved_ids": ...}, "unresolved_ids: is missing"),
        ({"resolved_ids": "a"}, "resolved_ids: 'a' is not a list"),
        ({"resolved_ids": ["a", 3]}, "resolved_ids[1]: 3 is not a name"),
        ({"resolved_ids": ["a", "a"]}, "resolved_ids[1]: 'a' stands in the list twice"),
        ({"resolved_ids": ["a\x1b"]}, "resolved_ids[0]"),
        ({"resolved_instances": 3}, "resolved_instances: 3, but resolved_ids holds 2"),
        ({"error_ids": ["a__a-1"]}, "error_ids: 'a__a-1' stands in resolved_ids too"),
        ({"failure_reasons": []}, "failure_reasons: [] is not an object"),
        ({"failure_reasons": {"x": 1}}, "failure_reasons.x: 1 is not text"),
    ],
)
def test_a_malformed_report_is_one_line_with_file_and_key(values, named, report):
    file = report(**values)
    with pytest.raises(UsageError) as error:
        read_swebench(file)
    assert str(error.value).startswith(f"{file}: ")
    assert named in str(error.value)
    assert "\x1b" not in str(error.value)


def test_a_report_without_a_run_is_refused(report):
    lists = {key: [] for key in REPORT if key.endswith("_ids")}
    counts = dict.fromkeys((key for key in REPORT if key.endswith("_instances")), 0)
    with pytest.raises(UsageError, match="no instance was run"):
        read_swebench(report(**lists, **counts))


def entry(task="t1", trial=1, **values):
    """One trial as terminal-bench 0.2.18 writes it."""
    times = {
        "trial_started_at": f"2026-11-30T10:0{trial}:00+00:00",
        "trial_ended_at": f"2026-11-30T10:0{trial}:50+00:00",
        "agent_started_at": f"2026-11-30T10:0{trial}:10+00:00",
        "agent_ended_at": f"2026-11-30T10:0{trial}:30+00:00",
        "test_started_at": f"2026-11-30T10:0{trial}:31+00:00",
        "test_ended_at": f"2026-11-30T10:0{trial}:41+00:00",
    }
    facts = {
        "trial_name": f"{task}.{trial}-of-2.run",
        "task_id": task,
        "instruction": "do it",
        "is_resolved": False,
        "failure_mode": "unset",
        "parser_results": {"test_a": "failed"},
    }
    return {**facts, **times, **values}


@pytest.fixture
def tb_run(tmp_path):
    def write(results, metadata=None, **values):
        folder = tmp_path / "2026-11-30__10-00-00"
        folder.mkdir(exist_ok=True)
        resolved = sum(bool(item.get("is_resolved")) for item in results if isinstance(item, dict))
        body = {"id": "x", "results": results, "n_resolved": resolved, **values}
        (folder / "results.json").write_text(json.dumps(body))
        if metadata is not None:
            (folder / "run_metadata.json").write_text(json.dumps(metadata))
        return folder

    return write


@pytest.mark.parametrize(
    ("mode", "outcome", "cause"),
    [
        ("unset", Outcome.FAILED, None),
        ("none", Outcome.FAILED, None),
        ("agent_timeout", Outcome.TIMEOUT, None),
        ("context_length_exceeded", Outcome.FAILED, None),
        ("output_length_exceeded", Outcome.FAILED, None),
        ("fatal_llm_parse_error", Outcome.FAILED, None),
        ("test_timeout", INFRA, Cause.VERIFIER_TIMEOUT),
        ("parse_error", INFRA, Cause.REWARD_INVALID),
        ("agent_installation_failed", INFRA, Cause.SANDBOX_START),
        ("unknown_agent_error", INFRA, Cause.HARNESS),
        ("unknown", INFRA, Cause.HARNESS),
        ("met_by_nobody", INFRA, Cause.HARNESS),
    ],
)
def test_failure_modes_of_a_trial_that_is_not_resolved(mode, outcome, cause, tb_run):
    (trial,) = read_terminal_bench(tb_run([entry(failure_mode=mode)])).trials
    assert (trial.outcome, trial.cause) == (outcome, cause)
    assert trial.detail == (None if mode in ("unset", "none") else f"failure_mode {mode}")


def test_every_failure_mode_that_resolves_passed(tb_run):
    modes = [*FAILURE_MODES, "met_by_nobody"]
    trials = [entry(f"t{n}", failure_mode=mode, is_resolved=True) for n, mode in enumerate(modes)]
    run = read_terminal_bench(tb_run(trials))
    assert {item.outcome for item in run.trials} == {Outcome.PASSED}


def test_trials_are_known_again_in_a_run_that_went_on(tb_run, tmp_path):
    trials = [entry(f"t{number}", id=f"uuid-{number}") for number in range(3)]
    import_runs([read_terminal_bench(tb_run(trials[:2]))], tmp_path / "study", parameter_set="1x")
    later = read_terminal_bench(tb_run(trials))
    with pytest.raises(UsageError, match="2 of its 3 trials are in the study already"):
        import_runs([later], tmp_path / "study", parameter_set="1x", into=True)
    unnamed = read_terminal_bench(tb_run([entry(), entry("t9", id=None)]))
    import_runs([unnamed], tmp_path / "study", parameter_set="1x", into=True)
    assert load_study(tmp_path / "study").manifest.data["planned_trials"] == 4


def test_a_trial_that_nobody_judged_is_no_failure(tb_run):
    (trial,) = read_terminal_bench(tb_run([entry(is_resolved=None)])).trials
    assert (trial.outcome, trial.cause) == (INFRA, Cause.REWARD_MISSING)


def test_what_else_a_run_tells(tb_run):
    metadata = {
        "agent_name": "terminus",
        "model_name": "provider/m",
        "n_concurrent_trials": 4,
        "dataset_name": "terminal-bench-core",
        "username": "somebody",
    }
    late = entry(trial=1, failure_mode="agent_timeout", total_input_tokens=9, total_output_tokens=2)
    folder = tb_run([entry(trial=2), late], metadata)
    for path in (folder, folder / "results.json"):
        run = read_terminal_bench(path, agent="not asked")
        assert run.agent == {"name": "terminus", "model": "provider/m", "version": None}
        assert (run.concurrency, run.facts) == (4, {"dataset_name": "terminal-bench-core"})
        first, second = run.trials
        assert (first.outcome, second.outcome) == (Outcome.TIMEOUT, Outcome.FAILED)
        assert (first.wall_seconds, first.phases[0].wall_seconds) == (50, 20)
        assert (first.usage, second.usage) == (Usage(input_tokens=9, output_tokens=2), None)
        assert [phase.ending for phase in first.phases] == ["deadline", "exit"]


def test_without_metadata_the_agent_is_who_the_user_says(tb_run):
    assert read_terminal_bench(tb_run([entry()])).agent["name"] is None
    assert read_terminal_bench(tb_run([entry()]), agent="me").agent["name"] == "me"


@pytest.mark.parametrize(
    ("results", "values", "named"),
    [
        ([], {}, "results: no trial"),
        ({}, {}, "results: {} is not a list"),
        ([3], {}, "results[0]: 3 is not an object"),
        ([entry(), entry(task_id=None)], {}, "results[1].task_id: is missing"),
        ([entry(is_resolved="yes")], {}, "results[0].is_resolved: 'yes' is neither"),
        ([entry(failure_mode=5)], {}, "results[0].failure_mode: 5 is not text"),
        ([entry(trial_started_at="x")], {}, "results[0].trial_started_at: 'x' is not a time"),
        ([entry(is_resolved=True)], {"n_resolved": 2}, "n_resolved: 2, but results hold 1"),
    ],
)
def test_a_malformed_run_is_one_line_with_file_and_key(results, values, named, tb_run):
    folder = tb_run(results, **values)
    with pytest.raises(UsageError) as error:
        read_terminal_bench(folder)
    assert str(error.value).startswith(f"{folder / 'results.json'}: ")
    assert named in str(error.value)


def test_a_trial_s_own_file_is_not_a_run(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(entry()))
    with pytest.raises(UsageError, match="name the folder of a run, not of a trial"):
        read_terminal_bench(tmp_path)


def test_a_folder_without_results_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"results\.json: cannot be read: No such file"):
        read_terminal_bench(tmp_path)
