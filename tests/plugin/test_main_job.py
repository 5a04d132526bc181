"""The main job on real engines: tasks in, kills that headroom removes, a summary out."""

import json
import re

import pytest
from bench import Bench, hog


def test_kills_are_gone_with_headroom(bench: Bench) -> None:
    bench.standard()
    result = bench.run("--infra-multipliers=1,4,uncapped", "-n0")
    assert bench.outcomes() == {
        ("calm", "1x"): "passed",
        ("calm", "4x"): "passed",
        ("calm", "uncapped"): "passed",
        ("hungry", "1x"): "oom",
        ("hungry", "4x"): "passed",
        ("hungry", "uncapped"): "passed",
        ("wrong", "1x"): "failed",
        ("wrong", "4x"): "failed",
        ("wrong", "uncapped"): "failed",
    }
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "OOM hungry 1x-s1 ended_phase: killed in agent, limit 32 MiB",
            "threshold: fit only: *",
            '3 tasks x 3 parameter sets x 1 sample, agent "oracle", interleaved',
            "*hard limit, oom policy process, 9 of 9 trials",
            "1x             1       1        0    1      0    33.3%*",
            "against 1x *",
            "kills: 1 kill at 1x in 1 task, none at 4x, none uncapped",
            "tasks that moved (named where beyond chance): 4x: 1 rescued; uncapped: 1 rescued",
            "study: .infranoise/*",
            "exit code 1: 4 trial(s) did not pass*--infra-exit=study*",
            "=* 3 failed, 5 passed, 1 oom in *",
        ]
    )


def test_a_record_holds_what_was_given_and_what_happened(bench: Bench) -> None:
    bench.task("hungry", f"{hog(64)}", environment="cpus = 0.5")
    bench.run("--infra-multipliers=1", "-n0")
    (record,) = bench.records()
    manifest = json.loads((bench.studies()[0] / "manifest.json").read_text())
    mib = 1024**2
    assert record["study"] == manifest["study"] == bench.studies()[0].name
    assert record["memory_guarantee_bytes"] == record["memory_limit_bytes"] == 32 * mib
    assert record["cpu_guarantee_cores"] == record["cpu_limit_cores"] == 0.5
    assert record["effective"]["memory_limit_bytes"] == 32 * mib
    assert (record["outcome"], record["cause"], record["oom_kills"]) == ("oom", "ended_phase", 1)
    assert record["memory_peak_bytes"] == 32 * mib
    assert record["schema_version"] == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["started_at"])
    phases = {phase["phase"]: phase for phase in record["phases"]}
    assert list(phases) == ["setup", "agent", "verify", "teardown"]
    assert phases["agent"]["exit_code"] == 137
    assert phases["agent"]["oom_kills"] == 1
    assert phases["agent"]["oom_kills_source"]
    assert phases["verify"]["oom_kills"] == 0
    assert record["visible_cpus"] > 0
    assert record["visible_memory_bytes"] > 32 * mib
    assert record["host_memory_available_bytes"] > 0
    assert record["cpu_seconds"] > 0
    assert record["admission_wait_seconds"] >= 0
    assert record["trials_beside"] >= 0
    assert record["worker"] == "main"


def test_a_survived_kill_of_a_passing_trial_stays_visible(bench: Bench) -> None:
    bench.task("recovers", f"{hog(64)} || touch /app/done")
    bench.run("--infra-multipliers=1", "-n0")
    (record,) = bench.records()
    assert (record["outcome"], record["oom_kills"]) == ("passed", 1)


def test_exit_code_137_by_itself_is_a_failure(bench: Bench) -> None:
    bench.task("pretender", "exit 137")
    bench.run("--infra-multipliers=1", "-n0")
    (record,) = bench.records()
    assert (record["outcome"], record["cause"], record["oom_kills"]) == ("failed", None, 0)


def test_a_deadline_is_a_timeout_and_a_late_solution_still_counts(bench: Bench) -> None:
    bench.task("slow", "sleep 60", agent_timeout=1)
    bench.task("late", "touch /app/done; sleep 60", agent_timeout=1)
    bench.run("--infra-multipliers=1", "-n0")
    assert bench.outcomes() == {("slow", "1x"): "timeout", ("late", "1x"): "passed"}


@pytest.mark.parametrize(
    ("test", "cause"),
    [
        ("true", "reward_missing"),
        ("echo much >/logs/verifier/reward.txt", "reward_invalid"),
        ("echo nan >/logs/verifier/reward.txt", "reward_invalid"),
        ("echo '[1]' >/logs/verifier/reward.json", "reward_invalid"),
        (f"{hog(64)} >/logs/verifier/reward.txt", "verifier"),
    ],
)
def test_a_verifier_without_an_answer_is_never_a_zero(
    one_bench: Bench, test: str, cause: str
) -> None:
    one_bench.task("unsure", test=test)
    one_bench.run("--infra-multipliers=1", "-n0")
    (record,) = one_bench.records()
    assert record["cause"] == cause
    assert record["outcome"] == ("oom" if cause == "verifier" else "infra_error")


def test_rewards_an_agent_left_do_not_count(bench: Bench) -> None:
    bench.task("cheat", "echo 1 >/logs/verifier/reward.txt", test="true")
    bench.run("--infra-multipliers=1", "-n0")
    (record,) = bench.records()
    assert (record["outcome"], record["cause"]) == ("infra_error", "reward_missing")


def test_reward_json_is_read_before_reward_txt(one_bench: Bench) -> None:
    test = "echo 0 >/logs/verifier/reward.txt; echo '{\"reward\": 1}' >/logs/verifier/reward.json"
    one_bench.task("both", test=test)
    one_bench.run("--infra-multipliers=1", "-n0")
    (record,) = one_bench.records()
    assert (record["outcome"], record["score"]) == ("passed", 1.0), record


@pytest.mark.parametrize(("leftovers", "outcome"), [("keep", "passed"), ("kill", "failed")])
def test_leftovers_are_kept_or_killed(bench: Bench, leftovers: str, outcome: str) -> None:
    alive = (
        "kill -0 $(cat /app/pid) && reward=1 || reward=0; echo $reward >/logs/verifier/reward.txt"
    )
    bench.task("service", "sleep 300 & echo $! >/app/pid", test=alive)
    bench.run("--infra-multipliers=1", "-n0", f"--infra-leftovers={leftovers}")
    (record,) = bench.records()
    assert record["outcome"] == outcome, record


def test_an_agent_command_sees_its_task_and_never_the_set(bench: Bench) -> None:
    bench.task("told", memory="32M")
    (bench.path / "agent.sh").write_text(
        'env | grep INFRA_ | sort; cat "$INFRA_INSTRUCTION"; echo "${TOKEN#s3}"; touch /app/done\n'
    )
    bench.pytester.makeini("[pytest]\ninfra_agent_env = TOKEN\n")
    bench.pytester._monkeypatch.setenv("TOKEN", "s3cret-value")  # type: ignore[attr-defined]
    bench.run(
        "--infra-multipliers=2,4",
        "-n0",
        "--infra-agent=sh /agent/agent.sh",
        f"--infra-agent-files={bench.path}/agent.sh:/agent/agent.sh",
    )
    first, second = bench.records()
    outputs = [record["phases"][1]["output"] for record in (first, second)]
    assert outputs[0] == outputs[1]
    assert "INFRA_TASK=told\n" in outputs[0]
    assert f"INFRA_SEED={first['seed']}\n" in outputs[0]
    assert "Make /app/done.\n" in outputs[0]
    assert first["seed"] == second["seed"]
    written = (bench.studies()[0] / "manifest.json").read_text()
    written += (bench.studies()[0] / "trials.jsonl").read_text()
    assert "s3cret-value" not in written
    assert '"TOKEN"' in written


def test_tests_are_not_there_before_verification(bench: Bench) -> None:
    bench.task("curious", "[ -e /tests ] && ls /tests | grep . || touch /app/done")
    bench.run("--infra-multipliers=1", "-n0")
    assert bench.outcomes() == {("curious", "1x"): "passed"}


def test_study_exit_code_treats_trials_as_data(one_bench: Bench) -> None:
    one_bench.task("wrong", "true")
    result = one_bench.run("--infra-multipliers=1", "-n0", "--infra-exit=study")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["exit code 0: trials are data (1 did not pass); *pytest*"])


def test_study_exit_code_does_not_hide_other_failures(one_bench: Bench) -> None:
    one_bench.task("calm")
    (one_bench.path / "bench" / "test_no.py").write_text("def test_no(): assert False\n")
    result = one_bench.run("--infra-multipliers=1", "-n0", "--infra-exit=study")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["exit code 1: 1 error(s) besides the trials' outcomes"])


def test_steps_run_as_the_user_of_the_image_or_of_the_task(one_bench: Bench) -> None:
    who = "id -u >/tmp/agent; touch /app/done"
    grade = "echo $(cat /tmp/agent) $(id -u); echo 1 >/logs/verifier/reward.txt"
    image_user = one_bench.task("image-user", who, test=grade)
    dockerfile = image_user / "environment" / "Dockerfile"
    dockerfile.write_text(dockerfile.read_text() + "RUN chmod 777 /app\nUSER 1234\n")
    one_bench.task("task-user", who, test=grade, extra="[metadata]\nx = 1\n")
    config = one_bench.path / "bench" / "task-user" / "task.toml"
    config.write_text(config.read_text().replace("[agent]", '[agent]\nuser = "4321"'))
    one_bench.task("root", who, test=grade)
    one_bench.run("--infra-multipliers=1", "-n0")
    seen = {record["task"]: record["phases"][2]["output"] for record in one_bench.records()}
    assert seen == {"image-user": "1234 1234\n", "task-user": "4321 0\n", "root": "0 0\n"}
