"""What must not happen, whatever goes wrong: a secret shown, a record lost, a bug hidden."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import BUSYBOX, Bench
from required import missing_engine

SECRET = "s3cret-value-4711"


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_a_passed_variable_is_shown_nowhere(
    one_bench: Bench, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    monkeypatch.setenv("API_KEY", SECRET)
    one_bench.task("leaky")
    result = one_bench.run(
        "--infra-multipliers=1",
        "--infra-agent=echo key=$API_KEY",
        "--infra-agent-env=API_KEY",
        "--junitxml=junit.xml",
        "-vv",
        workers,
    )
    result.stdout.fnmatch_lines(["*key=<redacted API_KEY>*"])
    shown = result.stdout.str() + result.stderr.str()
    written = [path for path in one_bench.path.rglob("*") if path.is_file()]
    assert SECRET not in shown
    assert one_bench.path / "junit.xml" in written
    assert not [path for path in written if SECRET.encode() in path.read_bytes()]


def test_a_value_in_place_of_a_name_is_not_repeated(plain_bench: Bench) -> None:
    plain_bench.task("calm")
    result = plain_bench.run("--infra-multipliers=1", f"--infra-agent-env=API_KEY={SECRET}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --infra-agent-env=API_KEY=...: give the name alone*"])
    assert SECRET not in result.stderr.str() + result.stdout.str()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few pages."""
    if os.geteuid() != 0:
        missing_engine("local", "a small disk can only be mounted by root")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_records_that_the_disk_refuses_are_rescued_and_fail_the_run(
    one_bench: Bench, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    one_bench.task("calm")
    result = one_bench.run(
        "--infra-multipliers=1,2,3", "--infra-samples=8", f"--infra-study={small_disk}/study", "-n2"
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (rescued,) = (tmp_path / "temporary").glob("infranoise-*-trials.jsonl")
    journal, number = small_disk / "study" / "trials.jsonl", len(rescued.read_text().splitlines())
    text = result.stdout.str()
    assert text.count(f"infranoise: {journal}: cannot be written: No space left on device; 1 ") == 1
    assert f"{number} record(s) did not fit into the study; append {rescued} to {journal}\n" in text
    assert f"exit code 1: {number} record(s) are not in the study\n" in text
    lines = (small_disk / "study" / "trials.jsonl").read_bytes() + rescued.read_bytes()
    keys = [
        (record["parameter_set"], record["sample"])
        for record in map(json.loads, lines.splitlines())
    ]
    assert len(keys) == len(set(keys)) == 24


def test_a_bug_in_a_marked_test_fails_a_study_too(one_bench: Bench) -> None:
    one_bench.pytester.makepyfile(
        test_suite="import pytest\n\n"
        f'@pytest.mark.infra(memory="32M", image="{BUSYBOX}")\n'
        "def test_buggy(infra_sandbox): undefined\n\n"
        f'@pytest.mark.infra(memory="32M", image="{BUSYBOX}")\n'
        "def test_honest(infra_sandbox): assert False\n"
    )
    result = one_bench.pytester.runpytest_subprocess(
        "--infra-backend=docker", "--infra-exit=study", "-n0"
    )
    assert result.ret == 1
    result.stdout.fnmatch_lines(["exit code 1: 1 error(s) besides the trials' outcomes"])
    result.stdout.fnmatch_lines(["=* 1 failed, 1 not passed in *"])
