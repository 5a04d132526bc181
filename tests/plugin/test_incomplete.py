"""Studies that ended before every trial ran, and records that found no place: never exit code 0."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import copytree, rmtree

import psutil
import pytest
from bench import Bench, wait_until

SWEEP = ("--infra-multipliers=1", "--infra-study=study", "--infra-exit=study")
GOES_ON = "; --infra-study=study --infra-resume goes on\n"


def journal_lines(bench: Bench) -> int:
    journal = bench.path / "study" / "trials.jsonl"
    return len(journal.read_text().splitlines()) if journal.exists() else 0


def finished(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=120)
    return output


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
@pytest.mark.parametrize("option", ["-x", "--maxfail=2"])
def test_a_run_that_pytest_cuts_short_is_no_success(
    local_bench: Bench, workers: str, option: str
) -> None:
    for number in range(5):
        local_bench.task(f"wrong-{number}", "true")
    result = local_bench.run(*SWEEP, option, workers, "-q")
    text = result.stdout.str()
    left = 5 - journal_lines(local_bench)
    assert 0 < left < 5
    assert result.ret == 2, text
    words = f"exit code 2: the session was stopped before every trial ran: {left} trial(s) left"
    assert words + GOES_ON in text
    assert local_bench.run("--infra-study=study", "--infra-resume", "-n0").ret == 0
    assert journal_lines(local_bench) == 5


def test_what_pytest_fails_says_what_is_left(local_bench: Bench) -> None:
    for number in range(3):
        local_bench.task(f"wrong-{number}", "true")
    result = local_bench.run("--infra-multipliers=1", "--infra-study=study", "-x", "-n0")
    assert result.ret == 1
    assert f"treats trials as data; 2 trial(s) left{GOES_ON}" in result.stdout.str()


@pytest.mark.parametrize(
    "ending",
    ["pytest.exit('enough', returncode=0)", "item.session.shouldstop = 'enough'"],
    ids=["exit", "shouldstop"],
)
def test_a_run_that_another_plugin_ends_is_no_success(local_bench: Bench, ending: str) -> None:
    for number in range(3):
        local_bench.task(f"calm-{number}")
    local_bench.pytester.makeconftest(
        f"import pytest\n\ndef pytest_runtest_teardown(item, nextitem):\n    {ending}\n"
    )
    result = local_bench.run(*SWEEP, "-n0")
    assert result.ret == 2, result.stdout.str()
    assert GOES_ON in result.stdout.str()


def test_workers_that_die_until_xdist_gives_up_are_no_success(local_bench: Bench) -> None:
    for number in range(6):
        local_bench.task(f"slow-{number}", "sleep 30; touch /app/done")
    process = local_bench.start(*SWEEP, "-n1", "--max-worker-restart=1")
    for ended in range(2):
        wait_until(lambda: sleeping(process))
        worker_of(process).send_signal(signal.SIGKILL)
        wait_until(lambda: process.poll() is not None or journal_lines(local_bench) > ended)  # noqa: B023
    output = finished(process)
    left = 6 - journal_lines(local_bench)
    assert left == 4, output
    assert process.returncode != 0, output
    assert f"4 trial(s) left{GOES_ON}" in output


def worker_of(process: subprocess.Popen[str]) -> psutil.Process:
    """Return the one living worker of xdist, by the program that execnet starts."""
    children = psutil.Process(process.pid).children()
    living = [item for item in children if item.status() != psutil.STATUS_ZOMBIE]
    (worker,) = [item for item in living if "exec(eval(" in " ".join(item.cmdline())]
    return worker


def sleeping(process: subprocess.Popen[str]) -> bool:
    try:
        family = psutil.Process(process.pid).children(recursive=True)
        return any("sleep" in item.name() for item in family)
    except psutil.NoSuchProcess:
        return False


def vanish(folder: Path) -> None:
    rmtree(folder)


def renamed(folder: Path) -> None:
    folder.rename(folder.with_name("renamed"))


def copied_over(folder: Path) -> None:
    renamed(folder)
    copytree(folder.with_name("renamed"), folder)


@pytest.mark.parametrize("displace", [vanish, renamed, copied_over], ids=lambda item: item.__name__)
@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_study_that_vanishes_is_rescued_and_no_success(
    local_bench: Bench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    displace: Callable[[Path], None],
    workers: str,
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    for number in range(4):
        local_bench.task(f"slow-{number}", "sleep 1; touch /app/done")
    process = local_bench.start(*SWEEP, workers)
    wait_until(lambda: journal_lines(local_bench))
    displace(local_bench.path / "study")
    output = finished(process)
    assert process.returncode == 1, output
    (saved,) = (tmp_path / "temporary").glob("infranoise-*-trials.jsonl")
    records = [json.loads(line) for line in saved.read_text().splitlines()]
    assert len({record["task"] for record in records}) == 4
    assert f"all 4 record(s) of the study are in {saved}" in output
    assert "exit code 1: 4 record(s) are not in the study\n" in output


def test_tasks_outside_of_rootdir_are_all_selected(local_bench: Bench) -> None:
    inside, twin = local_bench.path / "inside", local_bench.path / "twin"
    for name in ("one", "two"):
        local_bench.task(name)
    inside.mkdir()
    (inside / "pytest.ini").touch()
    (inside / "link").symlink_to(local_bench.task("linked", folder="elsewhere").parent)
    twin.symlink_to(local_bench.task("far", folder="far").parent)
    (local_bench.path / "test_marked.py").write_text(
        "import pytest\n\n@pytest.mark.infra(memory='32M')\n"
        "def test_it(infra_sandbox): assert infra_sandbox.exec('true').exit_code == 0\n"
    )
    arguments = ["bench/one", "bench/two", "inside/link/linked", "twin", "test_marked.py"]
    result = local_bench.pytester.runpytest_subprocess(
        *arguments, "-c", "inside/pytest.ini", "--rootdir=inside", *SWEEP, "-n2",
        "--infra-backend=local", "-p", "no:cacheprovider",
    )  # fmt: skip
    assert result.ret == 0, result.stdout.str()
    result.stdout.fnmatch_lines(["*5 of 5 trials"])
    assert "not selected" not in result.stdout.str()
    assert journal_lines(local_bench) == 5
