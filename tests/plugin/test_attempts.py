"""Trials that the model's provider refused: tried again, on record at once, in no rate."""

import json
import signal
from typing import Any

import pytest
from bench import Bench, wait_until

STUDY = "--infra-study=study"
SWEEP = ("--infra-multipliers=1,2", STUDY, "--infra-exit=study", "--infra-agent=solver:solve")
QUICK = "--infra-model-api-pause=0"

CLIENT = "class RateLimitError(Exception):\n    pass\n"
"""What a provider's own client raises, for a traceback that ends as a real one does."""

SOLVER = """
from pathlib import Path

import openai

def solve(instruction, sandbox):
    name = sandbox.task.name
    calls = Path({folder!r}) / name
    with calls.open("a") as file:
        print(sandbox.environment["INFRA_SAMPLE"], file=file)
    number = len(calls.read_text().splitlines())
    if name == "limited" and number <= {refusals}:
        raise openai.RateLimitError("Error code: 429 - slow down")
    sandbox.exec("touch /app/done")
    return {{"cost_usd": 0.5, "input_tokens": 100, "model": "some-model"}}
"""


@pytest.fixture
def solvers(local_bench: Bench) -> Bench:
    """A benchmark of two tasks and a function on the host; the first calls of one are refused."""
    local_bench.task("calm")
    local_bench.task("limited")
    (local_bench.path / "calls").mkdir()
    (local_bench.path / "openai.py").write_text(CLIENT)
    solver(local_bench, refusals=1)
    return local_bench


def solver(bench: Bench, *, refusals: int) -> None:
    text = SOLVER.format(folder=str(bench.path / "calls"), refusals=refusals)
    (bench.path / "solver.py").write_text(text)


def study_of(bench: Bench) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    manifest = json.loads((bench.path / "study" / "manifest.json").read_text())
    return manifest, bench.records(bench.path / "study")


def places(records: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("task", "parameter_set", "attempt", "outcome", "cause")
    return sorted(tuple(record[name] for name in names) for record in records)


def test_a_refused_trial_is_tried_again_and_measured(solvers: Bench) -> None:
    result = solvers.run(*SWEEP, QUICK, "-n2")
    assert result.ret == 0, result.stdout.str()
    manifest, records = study_of(solvers)
    refused = [record for record in records if record["cause"] == "model_api"]
    assert len(refused) == 1
    assert (refused[0]["task"], refused[0]["attempt"]) == ("limited", 1)
    assert refused[0]["detail"] == "rate limit: openai.RateLimitError: Error code: 429 - slow down"
    assert len(records) == 5
    retried = [record for record in records if record["attempt"] == 2]
    assert [(item["task"], item["outcome"]) for item in retried] == [("limited", "passed")]
    assert retried[0]["parameter_set"] == refused[0]["parameter_set"]
    assert retried[0]["seed"] == refused[0]["seed"]
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "*local*, 4 of 4 trials",
            "refused by the model's provider: 1 attempt of 1 trial, in no rate; each was tried "
            "again and measured",
            "agents report: 2.00 USD (known of 4 of 5 attempts), 400 input tokens (known of 4*",
        ]
    )
    assert manifest["usage"]["cost_usd"] == {"sum": 2.0, "attempts": 4}
    assert manifest["usage"]["models"] == ["some-model"]
    assert manifest["agent"] == {
        "name": "solver:solve",
        "function": "solver:solve",
        "location": "host",
    }
    assert retried[0]["usage"]["input_tokens"] == 100
    assert refused[0]["usage"] is None


def test_after_the_last_try_it_is_not_measured_and_a_later_session_goes_on(solvers: Bench) -> None:
    solver(solvers, refusals=99)
    result = solvers.run(*SWEEP, QUICK, "--infra-model-api-retries=1", "-n0")
    assert result.ret == 0, result.stdout.str()
    _, records = study_of(solvers)
    assert places(records) == [
        ("calm", "1x", 1, "passed", None),
        ("calm", "2x", 1, "passed", None),
        ("limited", "1x", 1, "infra_error", "model_api"),
        ("limited", "1x", 2, "infra_error", "model_api"),
        ("limited", "2x", 1, "infra_error", "model_api"),
        ("limited", "2x", 2, "infra_error", "model_api"),
    ]
    result.stdout.fnmatch_lines(
        [
            "*2 of 4 trials",
            "refused*4 attempts of 2 trials, in no rate; not measured yet: limited *x-s1, limited*",
            "1x * 1 * 0 * 0 * 0 * 0 *100.0%*",
            "*2 passed, 2 not measured*",
        ]
    )
    solver(solvers, refusals=0)
    again = solvers.run(STUDY, "--infra-resume", "--infra-exit=study", QUICK, "-n0")
    assert again.ret == 0, again.stdout.str()
    _, records = study_of(solvers)
    assert places(records)[-4:] == [
        ("limited", "1x", 3, "passed", None),
        ("limited", "2x", 1, "infra_error", "model_api"),
        ("limited", "2x", 2, "infra_error", "model_api"),
        ("limited", "2x", 3, "passed", None),
    ]
    again.stdout.fnmatch_lines(["*4 of 4 trials"])


def test_a_kill_between_two_attempts_loses_nothing_that_had_ended(solvers: Bench) -> None:
    process = solvers.start(*SWEEP, "--infra-model-api-pause=600", "-n2")
    journal = solvers.path / "study" / "trials.jsonl"
    try:
        wait_until(lambda: journal.exists() and b"model_api" in journal.read_bytes())
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    refused = [item for item in solvers.records(solvers.path / "study") if item["cause"]]
    assert [(item["task"], item["attempt"]) for item in refused] == [("limited", 1)]
    result = solvers.run(STUDY, "--infra-resume", "--infra-exit=study", QUICK, "-n0")
    assert result.ret == 0, result.stdout.str()
    _, records = study_of(solvers)
    assert len({(item["task"], item["parameter_set"], item["attempt"]) for item in records}) == 5
    assert sum(item["outcome"] == "passed" for item in records) == 4


def test_a_worker_that_dies_between_two_attempts_costs_the_second_alone(solvers: Bench) -> None:
    text = (solvers.path / "solver.py").read_text()
    dying = 'if name == "limited" and number == 2:\n        import os; os._exit(9)\n    if name =='
    (solvers.path / "solver.py").write_text(text.replace("if name ==", dying, 1))
    solvers.run(*SWEEP, QUICK, "-n2")
    _, records = study_of(solvers)
    own = [item for item in records if item["task"] == "limited" and item["cause"] is not None]
    assert [(item["attempt"], item["cause"]) for item in own] == [
        (1, "model_api"),
        (2, "worker_lost"),
    ]


def test_a_study_stops_where_its_trials_have_cost_what_they_may(solvers: Bench) -> None:
    solver(solvers, refusals=0)
    result = solvers.run(*SWEEP, "--infra-max-cost=0.75", "-n0")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    manifest, records = study_of(solvers)
    assert [item["outcome"] for item in records] == ["passed", "passed"]
    assert manifest["usage"]["cost_usd"]["sum"] == 1.0
    assert "max-cost" not in manifest["options"]
    result.stdout.fnmatch_lines(
        [
            "*trials have reported costs of 1.00 USD, --infra-max-cost is 0.75; running trials*",
            "2 trial(s) did not run: trials have reported costs of 1.00 USD, --infra-max-cost is *",
            "exit code 2: the run came to a halt before every trial was measured",
            "*2 passed, 2 not run*",
        ]
    )
    again = solvers.run(STUDY, "--infra-resume", "--infra-exit=study", "-n0")
    assert again.ret == 0, again.stdout.str()
    assert len(study_of(solvers)[1]) == 4


@pytest.mark.parametrize("left", ["", "echo nonsense >/logs/agent/usage.json"])
def test_a_limit_without_any_reported_cost_is_warned_of(local_bench: Bench, left: str) -> None:
    local_bench.task("calm")
    agent = f"--infra-agent=touch /app/done; {left}"
    result = local_bench.run("--infra-multipliers=1", agent, "--infra-max-cost=1", "-n0")
    assert result.ret == 0, result.stdout.str()
    (record,) = local_bench.records()
    assert record["usage"] is None
    assert record["notes"] == (["usage.json is not JSON"] if left else [])
    result.stdout.fnmatch_lines(["--infra-max-cost=1: no trial reported its cost, so this could*"])


def test_a_command_leaves_its_usage_in_a_file(local_bench: Bench) -> None:
    local_bench.task("calm")
    usage = '{"output_tokens": 7, "cost_usd": 0.01, "agent_version": "1.2"}'
    agent = f"--infra-agent=touch /app/done; echo '{usage}' >/logs/agent/usage.json"
    local_bench.run("--infra-multipliers=1,2", agent, "--infra-max-cost=5", "-n0")
    found = [record["usage"] for record in local_bench.records()]
    assert [(item["output_tokens"], item["cost_usd"], item["input_tokens"]) for item in found] == [
        (7, 0.01, None),
        (7, 0.01, None),
    ]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--infra-model-api-retries=-1", "'-1' is not a whole number from 0 on"),
        ("--infra-model-api-retries=x", "'x' is not a whole number from 0 on"),
        ("--infra-model-api-pause=soon", "*soon*"),
        ("--infra-max-cost=0", "'0' is not an amount above 0*"),
        ("--infra-max-cost=nan", "'nan' is not an amount above 0*"),
        ("--infra-max-cost=$3", "'$3' is not an amount above 0*"),
    ],
)
def test_mistakes_are_one_line(plain_bench: Bench, option: str, words: str) -> None:
    result = plain_bench.run("--infra-multipliers=1", option, "-n0")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    name = option.partition("=")[0]
    result.stderr.fnmatch_lines([f"ERROR: {name}: {words}"])
    assert "Traceback" not in result.stderr.str()


def test_a_study_of_which_nothing_was_measured_still_has_a_summary(local_bench: Bench) -> None:
    local_bench.task("calm")
    agent = "--infra-agent=echo 'API Error: 529 Overloaded'; exit 1"
    options = ("--infra-multipliers=1,2", agent, "--infra-model-api-retries=0", "-n0")
    result = local_bench.run(*options)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*0 of 2 trials",
            "refused by the model's provider: 2 attempts of 2 trials, in no rate; not measured*",
            "*2 not measured*",
        ]
    )
    assert "summary failed" not in result.stdout.str()
    assert [record["detail"] for record in local_bench.records()] == [
        "overload: API Error: 529 Overloaded"
    ] * 2


def test_a_suite_can_say_what_else_is_a_refusal(local_bench: Bench) -> None:
    local_bench.task("calm")
    local_bench.pytester.makeconftest(
        """
        from pytest_infranoise.model.outcome import Cause, Classification, Outcome

        def pytest_infra_classify(phases, plan, classification):
            for phase in phases:
                if phase.phase == "agent" and "model is asleep" in phase.output:
                    if plan.attempt == 1:
                        return Classification.infra(Cause.MODEL_API, "model is asleep")
        """
    )
    agent = "--infra-agent=echo the model is asleep; touch /app/done"
    local_bench.run("--infra-multipliers=1", agent, QUICK, "-n0")
    assert places(local_bench.records()) == [
        ("calm", "1x", 1, "infra_error", "model_api"),
        ("calm", "1x", 2, "passed", None),
    ]
