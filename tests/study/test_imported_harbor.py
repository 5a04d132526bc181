"""Harbor's jobs as studies: a real job folder (harbor 0.26), and how one can be off."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.outcome import Cause, Outcome
from pytest_infranoise.model.usage import Usage
from pytest_infranoise.study.imported_harbor import EXCEPTIONS, read_harbor

JOBS = Path(__file__).parents[1] / "reference" / "harbor"
JOB = JOBS / "made-elsewhere-1x"
OOM, INFRA = Outcome.OOM, Outcome.INFRA_ERROR


def own_passes(job: Path, threshold: float = 1.0) -> Counter[str]:
    """Passed trials per task, as the job's own result.json counts them."""
    found: Counter[str] = Counter()
    for evaluation in json.loads((job / "result.json").read_text())["stats"]["evals"].values():
        for reward, trials in evaluation["reward_stats"]["reward"].items():
            if float(reward) >= threshold:
                found.update(name.partition("__")[0] for name in trials)
    return found


@pytest.fixture
def job(tmp_path):
    """A copy of the real job, to be changed."""
    return Path(shutil.copytree(JOB, tmp_path / "job"))


@pytest.fixture
def change(job):
    """Change the values of one trial's file (the first of a task), or of the job's own."""

    def apply(task: str | None = "calm", **values):
        file = job / "result.json"
        if task is not None:
            file = sorted(job.glob(f"{task}__*/result.json"))[0]
        file.write_text(json.dumps({**json.loads(file.read_text()), **values}))
        return file

    return apply


@pytest.mark.parametrize("threshold", [1.0, 0.5])
@pytest.mark.parametrize("name", ["made-elsewhere-1x", "made-elsewhere-8x"])
def test_a_real_job_has_the_pass_counts_of_its_own_result(name, threshold):
    run = read_harbor(JOBS / name, pass_threshold=threshold)
    passed = Counter(
        trial.task.removeprefix("bench/") for trial in run.trials if trial.outcome is Outcome.PASSED
    )
    assert passed == own_passes(JOBS / name, threshold)
    assert len(passed) >= 2
    assert not [note for note in run.notes if "counts" in note]


def test_what_became_of_every_trial():
    run = read_harbor(JOB)
    found = {}
    for trial in run.trials:
        found.setdefault(trial.task.removeprefix("bench/"), set()).add((trial.outcome, trial.cause))
    assert found == {
        "calm": {(Outcome.PASSED, None)},
        "late": {(Outcome.PASSED, None)},  # its time was up, and what it had done passed
        "hungry": {(Outcome.FAILED, None)},  # a memory kill, which no file tells
        "wrong": {(Outcome.FAILED, None)},
        "half": {(Outcome.FAILED, None)},
        "crash": {(Outcome.FAILED, None)},
        "slow": {(Outcome.TIMEOUT, None)},
        "stuck-tests": {(INFRA, Cause.VERIFIER_TIMEOUT)},
        "no-reward": {(INFRA, Cause.REWARD_MISSING)},
        "no-image": {(INFRA, Cause.IMAGE)},
        "odd": {(INFRA, Cause.HARNESS)},
        "rate-limited": {(INFRA, Cause.MODEL_API)},
    }
    assert not run.left_out
    details = {trial.task: trial.detail for trial in run.trials}
    assert details["bench/odd"] == "ValueError"
    assert details["bench/crash"] == "NonZeroAgentExitCodeError (exit code 137)"
    assert run.notes == ("2 trial(s) ended with exit code 137, which does not prove a memory kill",)


def test_what_else_the_files_tell():
    run = read_harbor(JOB)
    assert run.agent == {"name": "scripted", "model": "provider/model-1", "version": "1.0.0"}
    assert (run.name, run.concurrency) == ("made-elsewhere-1x", 2)
    assert run.facts["harbor"] == "0.26.0"
    assert read_harbor(JOBS / "made-elsewhere-8x").facts["environment.override_memory_mb"] == 512
    late = [trial for trial in run.trials if trial.task == "bench/late"]
    for trial in late:
        agent, verify = trial.phases
        assert (agent.phase, agent.ending, verify.ending) == ("agent", "deadline", "exit")
        assert 3 <= agent.wall_seconds < trial.wall_seconds < 10
        assert agent.oom_kills is agent.exit_code is agent.memory_peak_bytes is None
    assert late[0].started_at < late[1].started_at


@pytest.mark.parametrize(
    ("exception", "outcome", "cause"),
    [
        ("AgentTimeoutError", Outcome.TIMEOUT, None),
        ("NonZeroAgentExitCodeError", Outcome.FAILED, None),
        ("ContextWindowExceededError", Outcome.FAILED, None),
        ("MemoryLimitExceededError", OOM, Cause.ENDED_PHASE),
        ("SandboxLikelyOutOfMemoryError", INFRA, Cause.UNATTRIBUTED_KILL),
        ("EnvironmentStartTimeoutError", INFRA, Cause.SANDBOX_START),
        ("AgentSetupTimeoutError", INFRA, Cause.SANDBOX_START),
        ("HealthcheckError", INFRA, Cause.SANDBOX_START),
        ("SandboxBuildFailedError", INFRA, Cause.IMAGE),
        ("GKEPodNotFoundError", INFRA, Cause.SANDBOX_LOST),
        ("VerifierTimeoutError", INFRA, Cause.VERIFIER_TIMEOUT),
        ("RewardFileEmptyError", INFRA, Cause.REWARD_MISSING),
        ("VerifierOutputParseError", INFRA, Cause.REWARD_INVALID),
        ("AddTestsDirError", INFRA, Cause.HARNESS),
        ("ApiRateLimitError", INFRA, Cause.MODEL_API),
        ("AuthenticationError", INFRA, Cause.MODEL_API),
        ("SomethingNewError", INFRA, Cause.HARNESS),
    ],
)
def test_exceptions_of_a_trial_that_did_not_pass(exception, outcome, cause, change, job):
    change("wrong", exception_info={"exception_type": exception, "exception_message": "key=sk-1"})
    (found,) = [
        (item.outcome, item.cause)
        for item in read_harbor(job).trials
        if (item.task, item.detail) == ("bench/wrong", exception)
    ]
    assert found == (outcome, cause)


def test_a_trial_that_somebody_stopped_is_left_out_by_name(change, job):
    change("wrong", exception_info={"exception_type": "CancelledError"})
    run = read_harbor(job)
    assert run.left_out == {"CancelledError": 1}
    assert len(run.trials) == 23


def test_only_a_type_that_proves_a_kill_is_oom():
    proving = [name for name, meaning in EXCEPTIONS.items() if meaning.outcome is OOM]
    assert proving == ["MemoryLimitExceededError"]


def test_a_reward_that_harbor_does_not_count_passes_nobody(change, job):
    change("calm", reward_valid=False, exception_info={"exception_type": "HealthcheckError"})
    outcomes = Counter(item.outcome for item in read_harbor(job).trials if "calm" in item.task)
    assert outcomes == {Outcome.PASSED: 1, INFRA: 1}


def test_an_older_file_without_reward_valid_counts_its_reward(change, job):
    file = change("calm")
    values = json.loads(file.read_text())
    for key in ("reward_valid", "schema_version", "step_results"):
        del values[key]
    file.write_text(json.dumps(values))
    assert len([item for item in read_harbor(job).trials if item.outcome is Outcome.PASSED]) == 4


def test_the_first_step_that_kept_a_trial_from_its_end_decides(change, job):
    steps = [
        {"exception_info": {"exception_type": name}}
        for name in ("NonZeroAgentExitCodeError", "VerifierTimeoutError", "AgentTimeoutError")
    ]
    change("wrong", step_results=steps)
    (found,) = [
        item
        for item in read_harbor(job).trials
        if "Verifier" in (item.detail or "") and item.task == "bench/wrong"
    ]
    assert (found.outcome, found.cause) == (INFRA, Cause.VERIFIER_TIMEOUT)


def test_several_rewards_are_their_mean_unless_one_is_the_reward(change, job):
    change("wrong", verifier_result={"rewards": {"a": 1.0, "b": 0.5}})
    change("calm", verifier_result={"rewards": {"a": 0.0, "reward": 1}})
    scores = {(item.task, item.score) for item in read_harbor(job).trials}
    assert ("bench/wrong", 0.75) in scores
    assert ("bench/calm", 1.0) in scores


def test_a_job_that_disagrees_with_its_trials_is_noted(change, job):
    change("calm", verifier_result={"rewards": {"reward": 0.0}})
    assert "result.json counts 4 trial(s) that passed, the trials' own files 3" in (
        read_harbor(job).notes
    )


def test_tokens_and_cost_are_those_of_all_steps(change, job):
    one = {"n_input_tokens": 100, "n_cache_tokens": 40, "n_output_tokens": 7, "cost_usd": 0.5}
    change("calm", agent_result=one)
    change("wrong", agent_result=None, step_results=[{"agent_result": one}, {"agent_result": one}])
    change("slow", agent_result={"n_input_tokens": "many", "cost_usd": -1})
    used = {item.task: item.usage for item in read_harbor(job).trials if item.usage is not None}
    assert set(used) == {"bench/calm", "bench/wrong"}
    assert used["bench/calm"] == Usage(100, 40, 7, 0.5)
    assert used["bench/wrong"] == Usage(200, 80, 14, 1.0)


def test_retries_and_a_job_that_goes_on_are_noted(change, job):
    own = json.loads((job / "result.json").read_text())
    change(None, n_total_trials=99, stats={**own["stats"], "n_retries": 3})
    notes = read_harbor(job).notes
    assert "the job has not ended: 24 of 99 trials" in notes
    assert any("ran 3 trial(s) again" in note and "understated" in note for note in notes)


def test_several_agents_need_a_choice(change, job):
    change("calm", agent_info={"name": "other", "version": "2", "model_info": {"name": "m"}})
    with pytest.raises(UsageError, match=r"--eval: other__m__tasks, scripted__provider/mod"):
        read_harbor(job)
    run = read_harbor(job, evaluation="other__m__tasks")
    assert (len(run.trials), run.agent["version"]) == (1, "2")
    with pytest.raises(UsageError, match="'nobody' is not in"):
        read_harbor(job, evaluation="nobody")


def test_a_task_of_two_data_sets_needs_a_choice(change, job):
    change("calm", source="another")
    with pytest.raises(UsageError, match="'bench/calm' is in two data sets"):
        read_harbor(job)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"schema_version": 2}, "schema_version: 2 is not 1"),
        ({"task_name": None}, "task_name: is missing"),
        ({"task_name": ""}, "task_name: is empty"),
        ({"task_name": "a\x1b[2J"}, "task_name: has unprintable"),
        ({"trial_name": 3}, "trial_name: 3 is not text"),
        ({"agent_info": None}, "agent_info: is missing"),
        ({"agent_info": {"name": None}}, "agent_info.name: is missing"),
        ({"verifier_result": []}, "verifier_result: [] is not an object"),
        ({"verifier_result": {"rewards": {"reward": "1"}}}, "rewards.reward: '1' is not a finite"),
        (
            {"verifier_result": {"rewards": {"reward": True}}},
            "rewards.reward: True is not a finite",
        ),
        ({"verifier_result": {"rewards": {"reward": 10**400}}}, "rewards.reward: 1000"),
        ({"verifier_result": {"rewards": {"reward": float("nan")}}}, "rewards.reward: nan is not"),
        ({"exception_info": {"exception_type": 1}}, "exception_info.exception_type: 1 is not text"),
        ({"step_results": {}}, "step_results: {} is not a list"),
        ({"step_results": [1]}, "step_results[0]: 1 is not an object"),
        ({"reward_valid": "yes"}, "reward_valid: 'yes' is neither"),
        ({"started_at": "yesterday"}, "started_at: 'yesterday' is not a time"),
        ({"agent_execution": {"started_at": 5}}, "agent_execution.started_at: 5 is not text"),
    ],
)
def test_a_malformed_trial_is_one_line_with_file_and_key(values, named, change, job):
    file = change("calm", **values)
    with pytest.raises(UsageError) as error:
        read_harbor(job)
    text = str(error.value)
    assert text.startswith(f"{file}: ")
    assert named in text
    assert "\n" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", "[" * 100_000])
def test_a_file_that_is_no_object_is_named(text, job):
    file = sorted(job.glob("*/result.json"))[0]
    file.write_text(text)
    with pytest.raises(UsageError, match=r"not (JSON|a JSON object)") as error:
        read_harbor(job)
    assert str(error.value).startswith(f"{file}: ")


@pytest.mark.parametrize(
    ("folder", "named"),
    [
        (JOBS, "a folder of jobs; name one of them: made-elsewhere-1x, made-elsewhere-8x"),
        (sorted(JOB.glob("calm__*"))[0] if JOB.exists() else JOB, "the folder of one trial"),
        (JOB / "result.json", "not a folder"),
        (JOB.parent / "missing", "not a folder"),
    ],
    ids=["jobs", "trial", "file", "missing"],
)
def test_what_is_no_job_is_said(folder, named):
    with pytest.raises(UsageError, match="^" + str(folder)) as error:
        read_harbor(folder)
    assert named in str(error.value)


def test_an_empty_folder_holds_no_trial(tmp_path):
    with pytest.raises(UsageError, match=r"no trial: no folder in it holds a result\.json"):
        read_harbor(tmp_path)
