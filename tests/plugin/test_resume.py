"""Studies that go on after they were stopped, killed, finished or changed."""

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from bench import Bench, hog, wait_until
from test_until_decided import AGENT, TWO, ten_tasks_that_are_rescued

SWEEP = ("--infra-multipliers=1,4", "--infra-samples=2", "--infra-seed=11", "--infra-exit=study")
STUDY = "--infra-study=study"
PLACE = ("task", "parameter_set", "sample", "attempt", "block", "position", "seed", "outcome")
KILLS = int(os.environ.get("INFRANOISE_RESUME_ROUNDS", "3"))
"""How often a study is killed at a random moment; 20 for the long run."""


def places(records: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(record[name] for name in PLACE) for record in records)


def study_of(bench: Bench, name: str = "study") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    manifest = json.loads((bench.path / name / "manifest.json").read_text())
    return manifest, bench.records(bench.path / name)


def refused(result: pytest.RunResult) -> str:
    """Return the one line of a usage error."""
    assert result.ret == pytest.ExitCode.USAGE_ERROR, result.stdout.str()
    assert "Traceback" not in result.stderr.str()
    (line,) = [line for line in result.stderr.lines if line.startswith("ERROR: ")]
    return line


def drop_records(bench: Bench, keep: int, tail: bytes = b"") -> None:
    """Leave the first records only, as if the study had been killed then."""
    journal = bench.path / "study" / "trials.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:keep]) + tail)


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_only_what_has_no_record_runs(one_bench: Bench, workers: str) -> None:
    one_bench.standard()
    assert one_bench.run(*SWEEP, STUDY, workers).ret == 0
    _, whole = study_of(one_bench)
    drop_records(one_bench, 5, tail=b'{"study": "half a li')
    result = one_bench.run(STUDY, "--infra-resume", workers)
    result.stdout.fnmatch_lines(["*7 passed*", "*12 of 12 trials*"][1:])
    manifest, records = study_of(one_bench)
    assert result.ret == 0
    assert places(records) == places(whole)
    assert records[:5] == whole[:5]
    assert len({record["study"] for record in records}) == 1
    assert manifest["planned_trials"] == 12
    assert [len(item["command_line"]) > 1 for item in manifest["sessions"]] == [True, True]
    assert all(item["ended_at"] for item in manifest["sessions"])
    assert (one_bench.path / "study" / "trials.jsonl.torn-1").read_bytes().endswith(b"half a li")


def test_nothing_left_is_no_failure(local_bench: Bench) -> None:
    local_bench.standard()
    local_bench.run(*SWEEP, STUDY, "-n0")
    before = study_of(local_bench)[1]
    result = local_bench.run(STUDY, "--infra-resume", "-n0")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*12 deselected*", "*nothing was left to run*"][1:])
    assert study_of(local_bench)[1] == before


@pytest.mark.parametrize("order", ["interleaved", "sequential"])
def test_more_samples_count_on_behind_the_others(local_bench: Bench, order: str) -> None:
    local_bench.task("calm")
    local_bench.task("wrong", "true")
    run = ("--infra-multipliers=1,2", f"--infra-order={order}", "--infra-exit=study", "-n0")
    local_bench.run(*run, STUDY, "--infra-seed=3")
    first = study_of(local_bench)[1]
    result = local_bench.run(STUDY, "--infra-resume", "--infra-samples=3", "-n0")
    assert result.ret == 0, result.stdout.str()
    manifest, records = study_of(local_bench)
    assert (manifest["samples"], manifest["extended_from"]) == (3, [1])
    assert records[:4] == first
    assert sorted(record["position"] for record in records) == list(range(12))
    assert [record["sample"] for record in sorted(records, key=lambda item: item["position"])][
        :4
    ] == [1, 1, 1, 1]
    assert Counter(record["block"] for record in records) == dict.fromkeys(range(6), 2)
    result.stdout.fnmatch_lines(["*analysed once while growing*"])


def test_a_study_killed_at_random_moments_ends_like_an_undisturbed_one(local_bench: Bench) -> None:
    local_bench.standard()
    local_bench.task("slow", "sleep 0.3; touch /app/done")
    start = time.monotonic()
    local_bench.run(*SWEEP, "--infra-study=whole", "-n2")
    seconds = time.monotonic() - start
    undisturbed = places(study_of(local_bench, "whole")[1])
    chance = random.Random(int(os.environ.get("INFRANOISE_RESUME_SEED", "5")))
    for number in range(KILLS):
        name = f"killed-{number}"
        kills = kill_at_random(local_bench, name, chance, seconds)
        _, records = study_of(local_bench, name)
        assert places(records) == undisturbed, f"round {number}, {kills} kills"


def kill_at_random(bench: Bench, name: str, chance: random.Random, seconds: float) -> int:
    """Kill the controller again and again until a session gets through; return how often."""
    kills = 0
    while True:
        workers = chance.choice(["-n0", "-n2"])
        process = bench.start(*SWEEP, f"--infra-study={name}", "--infra-resume", workers)
        try:
            output, _ = process.communicate(timeout=chance.uniform(0.2, 1.0) * seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            continue
        assert process.returncode == 0, output
        if kills:
            return kills
        rmtree(bench.path / name)  # it got through before it could be killed


def test_what_a_killed_session_left_behind_is_removed(
    one_bench: Bench, docker_backend: Any
) -> None:
    one_bench.task("slow", "sleep 4; touch /app/done")
    process = one_bench.start("--infra-multipliers=1,2", STUDY, "-n0")

    def containers() -> list[Any]:
        study = json.loads((one_bench.path / "study" / "manifest.json").read_text())["study"]
        label = {"label": f"pytest-infranoise={study}"}
        return list(docker_backend.client.api.containers(all=True, filters=label))

    wait_until(lambda: (one_bench.path / "study" / "manifest.json").exists())
    wait_until(containers)
    process.kill()
    process.communicate()
    assert containers()
    assert one_bench.run(STUDY, "--infra-resume", "-n0").ret == 0
    assert containers() == []
    assert {item["outcome"] for item in study_of(one_bench)[1]} == {"passed"}


def test_infra_errors_run_again_only_on_request_and_stay_on_record(local_bench: Bench) -> None:
    local_bench.standard()
    local_bench.run(*SWEEP, STUDY, "-n0")
    journal = local_bench.path / "study" / "trials.jsonl"
    records = study_of(local_bench)[1]
    broken = next(item for item in records if item["task"] == "calm")
    broken |= {"outcome": "infra_error", "cause": "sandbox_lost"}
    journal.write_text("".join(json.dumps(record) + "\n" for record in records))
    local_bench.run(STUDY, "--infra-resume", "-n0")
    assert study_of(local_bench)[1] == records
    result = local_bench.run(STUDY, "--infra-resume", "--infra-retry-infra-errors", "-n2")
    assert result.ret == 0, result.stdout.str()
    *first, again = study_of(local_bench)[1]
    assert first == records
    assert (again["task"], again["attempt"], again["outcome"]) == ("calm", 2, "passed")
    assert [again[key] for key in ("block", "position")] == [
        broken[key] for key in ("block", "position")
    ]
    result.stdout.fnmatch_lines(["*12 of 12 trials*"])


CHANGES: dict[str, tuple[tuple[str, ...], str]] = {
    "sets": (("--infra-multipliers=1,3",), "parameter sets: 1x 4x before, 1x 3x now"),
    "agent": (("--infra-agent=nop",), "agent: 'oracle' before, 'nop' now"),
    "enforcement": (("--infra-enforcement=lenient:3",), "tolerated overrun in seconds"),
    "policy": (("--infra-oom-policy=container",), "oom policy: process and container"),
    "leftovers": (("--infra-leftovers=kill",), "leftovers of calm"),
    "limits": (("--infra-memory-multipliers=1,4",), "parameter sets"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_what_changed_is_named_and_refused(local_bench: Bench, kind: str) -> None:
    local_bench.task("calm")
    local_bench.run("--infra-multipliers=1,4", STUDY, "-n0")
    options, words = CHANGES[kind]
    line = refused(local_bench.run(STUDY, "--infra-resume", *options, "-n0"))
    assert words in line
    assert "--infra-resume=anyway" in line
    manifest, records = study_of(local_bench)
    assert len(records) == 2
    assert len(manifest["sessions"]) == 1


def test_changed_tasks_are_named_and_anyway_is_recorded(local_bench: Bench) -> None:
    for name in ("calm", "edited", "gone"):
        local_bench.task(name)
    local_bench.run("--infra-multipliers=1,4", STUDY, "-n0")
    drop_records(local_bench, 3)
    (local_bench.path / "bench" / "edited" / "instruction.md").write_text("Something else.\n")
    (local_bench.path / "bench" / "gone").rename(local_bench.path / "elsewhere")
    local_bench.task("fresh")
    line = refused(local_bench.run(STUDY, "--infra-resume", "-n0"))
    assert "tasks that are missing: gone" in line
    assert "tasks that are new: fresh" in line
    assert "content of edited" in line
    result = local_bench.run(STUDY, "--infra-resume=anyway", "-n0")
    assert result.ret == 0, result.stdout.str()
    manifest, records = study_of(local_bench)
    assert manifest["sessions"][1]["changed"] == [
        "tasks that are missing: gone",
        "tasks that are new: fresh",
        "content of edited",
    ]
    assert [task["name"] for task in manifest["tasks"]][-1] == "fresh"
    assert (
        Counter((item["task"], item["parameter_set"]) for item in records).most_common(1)[0][1] == 1
    )
    result.stdout.fnmatch_lines(["*content of edited*"])


def test_what_the_order_stands_on_never_changes(local_bench: Bench) -> None:
    local_bench.task("calm")
    local_bench.run(*SWEEP, STUDY, "-n0")
    for option, words in {
        "--infra-seed=12": "seed: 11 before, 12 now",
        "--infra-samples=1": "samples: 2 before, 1 now",
        "--infra-order=sequential": "order: interleaved before, sequential now",
        "--infra-shard=1/2": "shard: none before, 1/2 now",
    }.items():
        line = refused(local_bench.run(STUDY, "--infra-resume=anyway", option, "-n0"))
        assert words in line
        assert "=anyway goes on" not in line


def test_a_study_that_was_made_longer_goes_on_as_long_as_it_is_now(local_bench: Bench) -> None:
    for name in ("a", "b", "c"):
        local_bench.task(name)
    local_bench.run("--infra-multipliers=1", STUDY, "-n0")
    longer = local_bench.run(STUDY, "--infra-samples=2", "--infra-resume", "-k", "not c", "-n0")
    assert longer.ret == 0, longer.stdout.str()
    assert local_bench.run(STUDY, "--infra-resume", "-n0").ret == 0
    manifest, records = study_of(local_bench)
    assert manifest["samples"] == 2
    assert sorted((item["task"], item["sample"]) for item in records) == [
        (task, sample) for task in ("a", "b", "c") for sample in (1, 2)
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--infra-resume",), "--infra-study=DIR"),
        (("--infra-resume", STUDY), "there is no study in"),
        (("--infra-resume=always", STUDY), "'always' is not one of check, anyway"),
        (("--infra-multipliers=1", "--infra-retry-infra-errors"), "goes with --infra-resume"),
    ],
)
def test_mistakes(plain_bench: Bench, options: tuple[str, ...], words: str) -> None:
    plain_bench.task("calm")
    assert words in refused(plain_bench.run(*options))


def test_a_dry_run_lists_what_is_left(local_bench: Bench) -> None:
    local_bench.task("calm")
    local_bench.run(*SWEEP, STUDY, "-n0")
    drop_records(local_bench, 1)
    before = study_of(local_bench)
    result = local_bench.run(STUDY, "--infra-resume", "--infra-dry-run")
    result.stdout.fnmatch_lines(["3 trials in this order (seed 11):"])
    assert study_of(local_bench) == before


def test_a_running_study_is_left_alone(local_bench: Bench) -> None:
    local_bench.task("slow", "sleep 12; touch /app/done")  # the second process is slow at times
    process = local_bench.start("--infra-multipliers=1", STUDY, "-n0")
    wait_until(lambda: (local_bench.path / "study" / "manifest.json").exists())
    for options in (["--infra-resume"], ["--infra-multipliers=1"]):
        assert "another process is writing it" in refused(local_bench.run(STUDY, *options, "-n0"))
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert [item["outcome"] for item in study_of(local_bench)[1]] == ["passed"]


def test_marked_tests_go_on_too(local_bench: Bench) -> None:
    Path(local_bench.path / "bench").mkdir()
    (local_bench.path / "bench" / "test_marked.py").write_text(
        f"""
import pytest

@pytest.mark.infra(memory="32M", cpus=1, timeout=20)
@pytest.mark.parametrize("word", ["a", "b"])
def test_it(infra_sandbox, word):
    assert infra_sandbox.exec(["sh", "-c", {hog(8)!r}]).exit_code == 0
"""
    )
    local_bench.run(*SWEEP, STUDY, "-n0")
    _, whole = study_of(local_bench)
    drop_records(local_bench, 3)
    for workers in ("-n2", "-n0"):
        result = local_bench.run(STUDY, "--infra-resume", workers)
        assert result.ret == 0, result.stdout.str()
        assert places(study_of(local_bench)[1]) == places(whole)


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_what_was_decided_stays_decided(local_bench: Bench, workers: str) -> None:
    ten_tasks_that_are_rescued(local_bench)
    local_bench.run(*TWO, AGENT, STUDY, "-n0", "--infra-exit=study")
    _, records = study_of(local_bench)
    assert len(records) == 20
    drop_records(local_bench, 17)
    result = local_bench.run(STUDY, "--infra-resume", workers)
    assert result.ret == 0, result.stdout.str()
    result.stdout.fnmatch_lines(["decided after 1 of 2 samples*", "=* 20 not needed*"])
    manifest, again = study_of(local_bench)
    assert places(again) == places(records)
    assert manifest["decided_at_look"] == 1


def test_a_look_that_a_killed_session_missed_is_taken_first(local_bench: Bench) -> None:
    ten_tasks_that_are_rescued(local_bench)
    local_bench.run(*TWO, AGENT, STUDY, "-n0", "--infra-exit=study")
    file = local_bench.path / "study" / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "decided_at_look": None}))
    result = local_bench.run(STUDY, "--infra-resume", "-n0")
    assert result.ret == 0, result.stdout.str()
    manifest, records = study_of(local_bench)
    assert (manifest["decided_at_look"], len(records)) == (1, 20)
