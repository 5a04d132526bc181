"""What task files can ask for, in real trials: thresholds, bootstraps, healthchecks and steps."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, _script, hog

ZERO = "echo 0 >/logs/verifier/reward.txt"


def only(bench: Bench) -> dict[str, Any]:
    (record,) = bench.records()
    return record


def manifest_of(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((bench.studies()[-1] / "manifest.json").read_text())
    return found


# --- rewards ---


def test_a_fraction_is_a_score_and_a_threshold_makes_it_a_pass(one_bench: Bench) -> None:
    one_bench.task("half", test="echo 0.5 >/logs/verifier/reward.txt")
    one_bench.run("--infra-multipliers=1", "-n0")
    assert (only(one_bench)["outcome"], only(one_bench)["score"]) == ("failed", 0.5)
    one_bench.run("--infra-multipliers=1", "-n0", "--infra-pass-threshold=0.5")
    assert (only(one_bench)["outcome"], only(one_bench)["score"]) == ("passed", 0.5)
    assert manifest_of(one_bench)["pass_threshold"] == 0.5


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "half"])
def test_a_threshold_that_is_none(plain_bench: Bench, text: str) -> None:
    plain_bench.task("calm")
    result = plain_bench.run("--infra-multipliers=1", "-n0", f"--infra-pass-threshold={text}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"ERROR: --infra-pass-threshold: '{text}' is not a reward above 0*"]
    )


def test_a_zero_of_tests_that_never_ran_is_an_infra_error(bench: Bench) -> None:
    bench.task("fetch", test=f"uvx pytest --ctrf /logs/verifier/ctrf.json; {ZERO}")
    bench.task("ctrf", test=f": ctrf.json; echo gone; {ZERO}")
    bench.task("ran", test=f"echo '[]' >/logs/verifier/ctrf.json; uvx 2>&1; {ZERO}")
    bench.task("silent", test=f"set -e; uvx pytest; {ZERO}")
    bench.task("plain", test=ZERO)
    bench.run("--infra-multipliers=1", "-n0")
    found = {
        item["task"]: (item["outcome"], item["cause"], item["score"]) for item in bench.records()
    }
    bootstrap = ("infra_error", "verifier_bootstrap", None)
    assert found == {
        "fetch": bootstrap,
        "ctrf": bootstrap,
        "silent": bootstrap,
        "ran": ("failed", None, 0.0),
        "plain": ("failed", None, 0.0),
    }
    details = {item["task"]: item["detail"] for item in bench.records()}
    assert details["fetch"].endswith("uvx: not found")
    assert details["ctrf"].endswith("its last line of output: gone")


def test_a_ctrf_that_the_agent_left_proves_nothing(one_bench: Bench) -> None:
    one_bench.task("cheat", "echo '[]' >/logs/verifier/ctrf.json", test=f": ctrf.json; {ZERO}")
    one_bench.run("--infra-multipliers=1", "-n0")
    assert only(one_bench)["cause"] == "verifier_bootstrap"


# --- healthchecks ---


def healthcheck(command: str, **values: float) -> str:
    lines = "".join(f"{name} = {value}\n" for name, value in values.items())
    return f"[environment.healthcheck]\ncommand = '{command}'\n{lines}"


def test_a_healthcheck_runs_before_the_agent(bench: Bench) -> None:
    count = "echo x >>/app/looks; [ $(wc -l </app/looks) -ge 3 ]"
    bench.task(
        "ready",
        "[ $(wc -l </app/looks) = 3 ] && touch /app/done",
        extra=healthcheck(count, interval_sec=0.05, retries=5),
    )
    bench.task("never", extra=healthcheck("exit 3", interval_sec=0.05, retries=2))
    bench.run("--infra-multipliers=1", "-n0")
    records = {record["task"]: record for record in bench.records()}
    assert records["ready"]["outcome"] == "passed"
    never = records["never"]
    assert (never["outcome"], never["cause"]) == ("infra_error", "sandbox_start")
    assert never["detail"] == "the healthcheck failed (exit code 3, 2 time(s) in a row): exit 3"
    assert [phase["phase"] for phase in never["phases"]] == ["setup", "teardown"]


def test_a_service_that_its_limit_kills_is_an_oom(one_bench: Bench) -> None:
    one_bench.task("tight", extra=healthcheck(hog(64), interval_sec=0.05, retries=1))
    one_bench.run("--infra-multipliers=1,4", "-n0")
    assert one_bench.outcomes() == {("tight", "1x"): "oom", ("tight", "4x"): "passed"}


# --- steps ---


def steps(bench: Bench, name: str, toml: str, files: Mapping[str, str]) -> Path:
    directory = bench.task(name, extra=toml)
    for place, text in files.items():
        path = directory / "steps" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".sh":
            _script(path, text)
        else:
            path.write_text(text)
    return directory


def grade(condition: str) -> str:
    return (
        f"if {condition}; then echo 1; else echo 0; fi >/logs/verifier/reward.txt; "
        "echo $INFRA_STEP $LEVEL $(id -u)"
    )


TWO = """
[[steps]]
name = "first"
verifier.env = { LEVEL = "a" }
[[steps]]
name = "second"
agent.user = 1234
verifier.env = { LEVEL = "b" }
verifier.user = "1234"
"""
FILES = {
    "first/instruction.md": "Step one.\n",
    "first/solution/solve.sh": 'cp "$INFRA_INSTRUCTION" /tmp/told; touch /tmp/one',
    "first/tests/test.sh": grade('grep -q "Step one" /tmp/told && [ -e /tmp/one ]'),
    "first/tests/secret": "42",
    "second/instruction.md": "Step two.\n",
    "second/workdir/data.txt": "given",
    "second/workdir/setup.sh": "cp data.txt /tmp/setup",
    "second/solution/solve.sh": (
        'cat "$INFRA_INSTRUCTION" >>/tmp/told2; id -u >/tmp/who; pwd >/tmp/where\n'
        "ls /tests /logs/verifier /logs/agent 2>/dev/null | grep -v : | grep . >/tmp/seen"
    ),
    "second/tests/test.sh": grade(
        'grep -q "Step two" /tmp/told2 && [ -e /tmp/one ] && [ "$(cat /tmp/who)" = 1234 ] && '
        '[ "$(cat /tmp/setup /app/data.txt)" = givengiven ] && [ ! -s /tmp/seen ] && '
        "[ ! -e /tests/secret ]"
    ),
}


def test_steps_share_a_sandbox_and_nothing_of_the_verification(bench: Bench) -> None:
    steps(bench, "two", TWO, FILES)
    bench.run("--infra-multipliers=1,2", "-n0")
    for record in bench.records():
        assert (record["outcome"], record["score"]) == ("passed", 1.0), record["phases"]
        assert [(phase["phase"], phase["step"]) for phase in record["phases"]] == [
            ("setup", "first"),
            ("agent", "first"),
            ("verify", "first"),
            ("setup", "second"),
            ("agent", "second"),
            ("verify", "second"),
            ("teardown", None),
        ]
        outputs = [phase["output"] for phase in record["phases"] if phase["phase"] == "verify"]
        assert outputs == ["first a 0\n", "second b 1234\n"]


def test_the_steps_after_one_that_falls_short_do_not_run(one_bench: Bench) -> None:
    failing = {**FILES, "first/tests/test.sh": "echo 0.4 >/logs/verifier/reward.txt"}
    strict = TWO.replace('name = "first"', 'name = "first"\nmin_reward = 0.5')
    steps(one_bench, "strict", strict, failing)
    steps(one_bench, "final", 'multi_step_reward_strategy = "x"', {})  # replaced below
    directory = one_bench.path / "bench" / "final"
    toml = (one_bench.path / "bench" / "strict" / "task.toml").read_text()
    (directory / "task.toml").write_text(
        'multi_step_reward_strategy = "final"\n'
        + toml.replace("min_reward = 0.5", "min_reward = 0.4")
    )
    for place in (one_bench.path / "bench" / "strict" / "steps").rglob("*"):
        target = directory / "steps" / place.relative_to(one_bench.path / "bench/strict/steps")
        if place.is_dir():
            target.mkdir(parents=True)
        else:
            target.write_bytes(place.read_bytes())
            target.chmod(0o755)
    one_bench.run("--infra-multipliers=1", "-n0")
    records = {record["task"]: record for record in one_bench.records()}
    ran = {
        task: [phase["step"] for phase in record["phases"] if phase["phase"] == "agent"]
        for task, record in records.items()
    }
    assert ran == {"strict": ["first"], "final": ["first", "second"]}
    assert (records["strict"]["outcome"], records["strict"]["score"]) == ("failed", 0.4)
    assert (records["final"]["outcome"], records["final"]["score"]) == ("passed", 1.0)


def test_a_kill_in_a_later_step_is_the_trials(bench: Bench) -> None:
    hungry = {**FILES, "second/solution/solve.sh": f"exec {hog(64)}"}
    steps(bench, "hungry", TWO, hungry)
    bench.run("--infra-multipliers=1", "-n0")
    record = only(bench)
    assert (record["outcome"], record["cause"], record["oom_kills"]) == ("oom", "ended_phase", 1)
    kills = {(item["phase"], item["step"]): item["oom_kills"] for item in record["phases"]}
    assert (kills["agent", "first"], kills["agent", "second"]) == (0, 1)


def test_a_step_whose_setup_fails_is_an_infra_error(one_bench: Bench) -> None:
    broken = {**FILES, "second/workdir/setup.sh": "echo no such luck; exit 4"}
    steps(one_bench, "broken", TWO, broken)
    one_bench.run("--infra-multipliers=1", "-n0")
    record = only(one_bench)
    assert (record["outcome"], record["cause"]) == ("infra_error", "sandbox_start")
    assert record["detail"] == "step second: setup.sh: exit code 4: no such luck"


def test_the_tests_of_a_step_lie_over_the_tasks(one_bench: Bench) -> None:
    shared = {
        "only/instruction.md": "x",
        "only/solution/solve.sh": "true",
        "only/tests/expected.txt": "own",
    }
    directory = steps(one_bench, "shared", '[[steps]]\nname = "only"', shared)
    _script(directory / "tests" / "test.sh", "cat /tests/*.txt; echo 1 >/logs/verifier/reward.txt")
    (directory / "tests" / "expected.txt").write_text("task")
    (directory / "tests" / "other.txt").write_text("-kept")
    one_bench.run("--infra-multipliers=1", "-n0")
    record = only(one_bench)
    assert record["outcome"] == "passed"
    assert record["phases"][2]["output"] == "own-kept"


def test_an_oracle_needs_a_solution_for_every_step(plain_bench: Bench) -> None:
    partial = {name: text for name, text in FILES.items() if not name.startswith("second/sol")}
    directory = steps(plain_bench, "partial", TWO, partial)
    (directory / "solution" / "solve.sh").unlink()
    result = plain_bench.run("--infra-multipliers=1", "-n0")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *partial/steps/second: solution/solve.sh is missing*"])


def test_ignored_files_stay_out_of_the_sandbox(one_bench: Bench) -> None:
    check = "[ -e /tests/kept ] && [ ! -e /tests/draft.md ] && [ ! -e /solution/draft.md ]"
    folder = one_bench.task("ignores", test=f"{check} && echo 1 >/logs/verifier/reward.txt")
    for name in ("tests", "solution"):
        (folder / name / ".harborignore").write_text("*.md\n")
        (folder / name / "draft.md").touch()
        (folder / name / "kept").touch()
    one_bench.run("--infra-multipliers=1", "-n0")
    assert only(one_bench)["outcome"] == "passed"


def test_a_step_that_the_agent_of_the_one_before_made_impossible(one_bench: Bench) -> None:
    own = "#!/bin/busybox sh\necho 1 >/logs/verifier/reward.txt\n"
    spoiling = {
        **FILES,
        "first/solution/solve.sh": "rm /bin/sh",
        "first/tests/test.sh": own,
        "second/tests/test.sh": own,
    }
    steps(one_bench, "no-setup", TWO, spoiling)
    every = {**spoiling, "first/tests/test.sh": "echo 1 >/logs/verifier/reward.txt"}
    steps(one_bench, "no-tests", TWO, every)
    faulty = {**FILES, "second/workdir/setup.sh": "echo no; exit 3"}
    steps(one_bench, "wrong", TWO, faulty)
    one_bench.run("--infra-multipliers=1", "-n0")
    found = {
        item["task"]: (item["outcome"], item["score"], item["detail"])
        for item in one_bench.records()
    }
    assert found["no-tests"] == (
        "failed", None, "the tests could not run: the agent changed /bin/sh",
    )  # fmt: skip
    outcome, score, detail = found["no-setup"]
    assert (outcome, score) == ("failed", 0.5)
    assert detail.startswith("step second: setup.sh: exit code 127")
    assert detail.endswith("the agent changed /bin/sh")
    assert found["wrong"] == ("infra_error", None, "step second: setup.sh: exit code 3: no")
