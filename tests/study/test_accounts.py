"""Attempts that measured nothing: passed over, counted, and still to be run."""

import json
from itertools import permutations

import pytest

from pytest_infranoise.model.outcome import Cause
from pytest_infranoise.model.usage import Usage
from pytest_infranoise.report.accounts import account_lines, accounts_json
from pytest_infranoise.report.export import rows
from pytest_infranoise.report.view import view_records, view_study
from pytest_infranoise.study.accounts import Accounts, measured
from pytest_infranoise.study.progress import DONE, read_progress
from pytest_infranoise.study.store import load_study, table_of
from pytest_infranoise.study.writer import MANIFEST_NAME

API, AWAY = Cause.MODEL_API, Cause.ENGINE_AWAY

MANIFEST = {
    "schema_version": 1,
    "study": "s",
    "parameter_sets": [{"id": "1x"}, {"id": "3x"}],
    "tasks": [{"name": "spike"}],
    "baseline": "1x",
    "agent": {"name": "my-agent"},
}


@pytest.fixture
def refused(make_record):
    """Make a record of an attempt that the model's provider refused."""

    def make(attempt=1, **values):
        own = {"outcome": "infra_error", "cause": "model_api", "detail": "rate limit: 429"}
        return make_record(attempt=attempt, **{**own, **values})

    return make


def table_rows(table):
    return [
        (table.parameter_sets[parameter_set], attempt, outcome)
        for parameter_set, attempt, outcome in zip(
            table.parameter_set, table.attempt, table.outcome, strict=True
        )
    ]


def test_refused_attempts_are_no_rows_and_the_next_is_the_first(make_record, refused):
    passed = make_record(attempt=3, outcome="passed", cause=None)
    later = make_record(attempt=4, outcome="failed", cause=None)
    table = table_of([refused(1), refused(2), passed, later], MANIFEST)
    assert table_rows(table) == [("1x", 1, 0), ("1x", 2, 1)]
    alone = table_of([refused(1), make_record(parameter_set="3x")], MANIFEST)
    assert table_rows(alone) == [("3x", 1, 3)]


def test_a_rate_knows_nothing_of_them(tmp_path, make_record, refused):
    records = [
        refused(1),
        make_record(attempt=2, outcome="passed", cause=None),
        refused(1, sample=2),
        make_record(parameter_set="3x", outcome="failed", cause=None),
    ]
    view = view_records(records, MANIFEST)
    first = view.analysis.sets[0]
    assert (first.n_trials, first.success.macro, first.infra_error.macro) == (1, 1.0, 0.0)
    assert view.outcomes_by_task["spike"]["1x"] == {"passed": 1}
    assert view.analysis.later_attempts == 0
    (tmp_path / MANIFEST_NAME).write_text(json.dumps(MANIFEST))
    lines = [json.dumps(item) for item in [*records, records[0]]]  # one of them twice
    (tmp_path / "trials.jsonl").write_text("\n".join(lines) + "\n")
    stored = view_study(load_study(tmp_path))
    assert stored.table == view.table
    assert stored.accounts.attempts(API) == view.accounts.attempts(API) == 2
    assert stored.accounts.usage.attempts == 4
    assert [row["cause"] for row in rows(load_study(tmp_path).records(), MANIFEST)] == [
        "model_api",
        None,
        "model_api",
        None,
    ]


def test_they_are_counted_in_any_order(make_record, refused):
    records = [
        refused(1),
        make_record(attempt=2),
        refused(1, sample=2),
        refused(2, sample=2),
        make_record(sample=3, outcome="infra_error", cause="engine"),
        refused(2, sample=3),
    ]
    for order in permutations(records):
        accounts = Accounts.of(order)
        assert (accounts.attempts(API), accounts.trials(API)) == (4, 3)
        assert accounts.unmeasured == accounts.left_by(API) == [("spike", "1x", 2)]


def test_attempts_that_met_no_engine_are_counted_apart_from_refused_ones(make_record, refused):
    away = {"outcome": "infra_error", "cause": "engine_away"}
    records = [
        refused(1),
        make_record(attempt=2, **away),
        make_record(sample=2, **away),
        make_record(sample=2, attempt=2, outcome="passed", cause=None),
    ]
    accounts = Accounts.of(records)
    assert [accounts.attempts(cause) for cause in (API, AWAY)] == [1, 2]
    assert [accounts.trials(cause) for cause in (API, AWAY)] == [1, 2]
    assert accounts.left_by(API) == []
    assert accounts.left_by(AWAY) == [("spike", "1x", 1)]
    first, second = account_lines(accounts)
    assert first.text.startswith("refused by the model's provider: 1 attempt of 1 trial, in no")
    assert second.text == (
        "lost while the engine was away: 2 attempts of 2 trials, in no rate; not measured yet: "
        "spike 1x-s1 (--infra-resume tries them again)"
    )
    assert table_rows(table_of(records, MANIFEST)) == [("1x", 1, 0)]


def test_readers_of_records_number_what_was_measured(make_record, refused):
    records = [refused(1), refused(2), make_record(attempt=3), make_record(sample=2)]
    assert [(item["sample"], item["attempt"]) for item in measured(records)] == [(1, 1), (2, 1)]


@pytest.mark.parametrize(
    ("attempts", "retry", "expected"),
    [
        (["model_api"], False, 2),
        (["model_api", "model_api"], False, 3),
        (["model_api", None], False, DONE),
        (["model_api", "engine"], False, DONE),
        (["model_api", "engine"], True, 3),
        (["engine", "model_api"], False, DONE),
        (["engine", "model_api"], True, 3),
        (["engine", None], True, DONE),
    ],
)
def test_what_is_still_to_be_run(make_record, attempts, retry, expected):
    records = [
        make_record(attempt=number, cause=cause, outcome="infra_error" if cause else "passed")
        for number, cause in enumerate(attempts, start=1)
    ]
    found = read_progress(records, retry_infra_errors=retry)
    assert found == {("spike", "1x", 1): expected}


def test_what_agents_used_is_exported_and_summed(make_record, refused):
    records = [
        make_record(usage={"cost_usd": 0.5, "retries": 2, "model": "a"}),
        make_record(sample=2, usage=None),
        make_record(sample=3, usage={"output_tokens": 1500, "model": "b"}),
    ]
    exported = list(rows(records, MANIFEST))
    assert [row["cost_usd"] for row in exported] == [0.5, None, None]
    assert [row["model_retries"] for row in exported] == [2, None, None]
    lines = [line.text for line in account_lines(Accounts.of(records))]
    assert lines == [
        "agents report: 0.50 USD (known of 1 of 3 attempts), 1,500 output tokens (known of 1 of 3 "
        "attempts), 2 repeated requests (known of 1 of 3 attempts)",
        "agents report 2 different models: a, b",
    ]
    assert list(account_lines(Accounts.of([make_record()]))) == []
    written = accounts_json(Accounts.of([*records, make_record(sample=4, cause="model_api")]))
    assert written["unmeasured"] == [["spike", "1x", 4]]
    assert written["usage"]["output_tokens"] == {"sum": 1500, "attempts": 1}


def test_records_of_old_say_nothing_of_usage(tmp_path, make_record):
    record = make_record()
    old = {name: value for name, value in record.items() if name != "usage"}
    new = make_record(sample=2, usage={"cost_usd": 1.0})
    (tmp_path / MANIFEST_NAME).write_text(json.dumps(MANIFEST))
    (tmp_path / "trials.jsonl").write_text(f"{json.dumps(old)}\n{json.dumps(new)}\n")
    first, second = load_study(tmp_path).trial_records()
    assert (first.usage, second.usage) == (None, Usage(cost_usd=1.0))


def test_overruns_that_were_let_pass_are_told_per_set(make_record):
    own = {"outcome": "passed", "cause": None, "oom_kills": 0}
    records = [
        make_record(sample=1, overrun_seconds=1.25, **own),
        make_record(sample=2, overrun_seconds=0.5, **own),
        make_record(sample=3, overrun_seconds=0.0, **own),
        make_record(sample=4, overrun_seconds=None, **own),
        make_record(sample=5, overrun_seconds=3.0, **{**own, "oom_kills": 1}),
        make_record(parameter_set="3x", overrun_seconds=0.25, **own),
    ]
    accounts = Accounts.of(records)
    assert [line.text for line in account_lines(accounts)] == [
        "above the kill threshold and tolerated: 2 trials at 1x (1.8 s in all), "
        "1 trial at 3x (0.2 s in all)"
    ]
    assert accounts_json(accounts)["tolerated_overruns"] == {
        "1x": {"trials": 2, "seconds": 1.75},
        "3x": {"trials": 1, "seconds": 0.25},
    }
    assert not list(account_lines(Accounts.of(records[2:5])))
