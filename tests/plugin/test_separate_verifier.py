"""Verification in a sandbox of its own, in real trials."""

from pathlib import Path
from typing import Any

import pytest
from bench import BUSYBOX, Bench, _script, hog

APART = '[verifier]\nenvironment_mode = "separate"\n'
PASS = "echo 1 >/logs/verifier/reward.txt"
FAIL = "echo 0 >/logs/verifier/reward.txt"


def task(bench: Bench, name: str, solve: str, test: str, toml: str = APART) -> Path:
    """A task whose own `[verifier]` table is given, which the bench's tasks have already."""
    folder = bench.task(name, solve, test=f"{test}\n")
    path = folder / "task.toml"
    own = '\n[environment]\nmemory = "32M"\n'
    head = 'schema_version = "1.4"\n'
    before, verifier = toml.split("[verifier]\n")
    rest = f"[agent]\ntimeout_sec = 30{own}[verifier]\ntimeout_sec = 30\n{verifier}"
    path.write_text(head + before + rest)
    return folder


def outcomes(bench: Bench) -> dict[str, tuple[str, str | None]]:
    return {item["task"]: (item["outcome"], item["cause"]) for item in bench.records()}


def phases(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [(item["phase"], item["sandbox"]) for item in record["phases"]]


def test_only_what_is_listed_or_published_is_carried_over(bench: Bench) -> None:
    task(
        bench,
        "carried",
        "mkdir -p /app/out/skip /logs/artifacts\n"
        "echo 1 >/app/out/kept; echo 1 >/app/out/skip/x; echo 1 >/app/secret\n"
        "echo 1 >/logs/artifacts/published\n"
        "deep=/app/deep; for n in $(seq 101); do deep=$deep/d; done; mkdir -p $deep\n"
        "ln -s loop /app/loop; sleep 100 &",
        f"""
if [ -s /app/out/kept ] && [ -s /logs/artifacts/published ] && [ "$(cat /app/state)" = end ] &&
    [ ! -e /app/secret ] && [ ! -e /app/deep ] && [ ! -e /app/loop ] &&
    [ ! -e /app/out/skip ] && [ ! -e /solution/solve.sh ] &&
    touch /app/out/mine
then {PASS}; else {FAIL}; ls -R /app /logs; fi""",
        'artifacts = ["/app/state", "/app/none", "/app/deep", "/app/loop", '
        '{ source = "/app/out", exclude = ["skip"] }]\n'
        f'{APART}[[verifier.collect]]\ncommand = "echo end >/app/state"\n'
        '[[verifier.collect]]\ncommand = "false"\n',
    )
    bench.run("--infra-multipliers=1", "-n0")
    (record,) = bench.records()
    assert record["outcome"] == "passed", record["phases"]
    own = ("verify", "verifier")
    expected = [("setup", "agent"), ("agent", "agent"), ("verify", "agent"), own]
    assert phases(record)[:4] == expected
    assert record["verifier"]["memory_limit_bytes"] == 32 * 1024**2
    assert "collect in main: exit code 1: false" in record["notes"]
    left_out = [note for note in record["notes"] if note.startswith("artifact ")]
    assert [note.partition(": more")[0] for note in left_out] == ["artifact /app/deep: left out"]


def test_a_verifier_is_killed_at_its_own_limit_in_every_set(bench: Bench) -> None:
    verifier = '[verifier]\nenvironment = { memory = "16M" }\n'
    task(bench, "greedy", "true", f"{hog(48)} >/dev/null && {PASS}", verifier)
    roomy = '[verifier]\nenvironment = { memory = "128M" }\n'
    task(bench, "roomy", "true", f"{hog(48)} >/dev/null && {PASS}", roomy)
    bench.run("--infra-multipliers=1,uncapped", "-n0")
    found = {
        (item["task"], item["parameter_set"]): (item["outcome"], item["cause"])
        for item in bench.records()
    }
    killed = ("infra_error", "verifier_memory")
    assert found == {
        ("greedy", "1x"): killed,
        ("greedy", "uncapped"): killed,
        ("roomy", "1x"): ("passed", None),
        ("roomy", "uncapped"): ("passed", None),
    }
    for record in bench.records():
        last = next(item for item in record["phases"] if item["sandbox"] == "verifier")
        assert (last["oom_kills"] > 0) == (record["task"] == "greedy")
        assert record["oom_kills"] == 0  # of the agent's own sandbox
        limit = 16 if record["task"] == "greedy" else 128
        assert record["verifier"]["memory_limit_bytes"] == limit * 1024**2
        beyond = 96 if record["task"] == "roomy" else 0
        assert record["requested"]["beside_memory_bytes"] == beyond * 1024**2


def test_the_agents_kill_stays_the_agents(bench: Bench) -> None:
    task(bench, "hungry", f"{hog(64)} >/dev/null && touch /app/done", PASS)
    task(bench, "recovers", f"({hog(64)}) >/dev/null 2>&1; true", FAIL)
    bench.run("--infra-multipliers=1", "-n0")
    assert outcomes(bench)["recovers"] == ("oom", "survived_then_failed")
    assert outcomes(bench)["hungry"][0] in ("oom", "passed")


def test_an_image_of_the_tests_brings_them(bench: Bench) -> None:
    folder = task(bench, "bundled", "echo 42 >/logs/artifacts/answer", "exit 1")
    checked = f'[ "$(cat /logs/artifacts/answer)" = 42 ] && [ "$MINE" = yes ] && {PASS}'
    _script(folder / "tests" / "in_image.sh", f"{checked}\n")
    (folder / "tests" / "Dockerfile").write_text(
        f"FROM {BUSYBOX}\nENV MINE=yes\nCOPY in_image.sh /tests/test.sh\n"
    )
    bench.run("--infra-multipliers=1", "-n0")
    (record,) = bench.records()
    assert record["outcome"] == "passed", record["phases"]
    assert record["verifier"]["image_digest"] not in (None, record["image_digest"])


def test_tests_in_an_image_are_not_for_the_local_backend(local_bench: Bench) -> None:
    image = '[verifier]\nenvironment = { docker_image = "some/tests" }\n'
    task(local_bench, "imaged", "true", PASS, image)
    result = local_bench.run("--infra-multipliers=1", "-n0")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: task imaged: its tests are in the verifier's docker_image*"]
    )


def test_the_steps_of_a_task_go_on_in_the_agents_sandbox(one_bench: Bench) -> None:
    folder = task(one_bench, "stepped", "true", "true", f'{APART}[[steps]]\nname = "one"\n'
                  '[[steps]]\nname = "two"\n')  # fmt: skip
    for number, name in enumerate(("one", "two"), 1):
        step = folder / "steps" / name
        (step / "tests").mkdir(parents=True)
        (step / "solution").mkdir()
        (step / "instruction.md").write_text("Go on.\n")
        _script(step / "solution" / "solve.sh", "echo x >>/logs/artifacts/lines")
        check = f'[ "$(wc -l </logs/artifacts/lines)" = {number} ]'
        _script(step / "tests" / "test.sh", f"if {check}; then {PASS}; else {FAIL}; fi")
    one_bench.run("--infra-multipliers=1", "-n0")
    (record,) = one_bench.records()
    assert (record["outcome"], record["score"]) == ("passed", 1.0), record["phases"]
    own = [(item["step"], item["sandbox"]) for item in record["phases"]]
    assert own.count(("one", "verifier")) == own.count(("two", "verifier")) == 1
    assert record["requested"]["beside_memory_bytes"] == 32 * 1024**2  # at the same time
