"""What holds for every command: help, exit codes, one line for a mistake, quiet interruptions."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_tables import CASES

from pytest_infranoise.cli import main as main_module
from pytest_infranoise.cli.main import COMMANDS, main
from pytest_infranoise.errors import InfranoiseError

RUN = [sys.executable, "-m", "pytest_infranoise"]
MANY_ROWS = [(f"a task with a long name {n:04}", "1x", 1, 0, 0, 0, 0) for n in range(5000)]


def test_help_names_every_command_and_exit_code(command):
    code, out, err = command("--help")
    assert (code, err) == (0, "")
    assert all(name in out for name in COMMANDS)
    assert all(f"\n  {code} " in out for code in (0, 1, 2, 3, 4, 141))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_has_an_example(name, command):
    code, out, err = command(name, "--help")
    assert (code, err) == (0, "")
    assert "example" in out
    assert f"infranoise {name} " in out


def test_help_and_version_load_nothing_heavy():
    heavy = ("numpy", "scipy", "docker", "pydantic", "psutil", "pytest", "dataclasses")
    for option in ("--help", "--version"):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "pytest_infranoise", option],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert "pytest_infranoise.cli.main" in loaded
        assert not loaded & set(heavy)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "COMMAND"),
        (["repot"], "repot"),
        (["report"], "STUDY"),
        (["report", "/nowhere/at/all"], "/nowhere/at/all"),
        (["report", "--margin", "3", "x"], "--margin"),
        (["report", "--form", "json", "x"], "--form"),
        (["report", "x", "--format", "xml"], "xml"),
        (["plan"], "--tasks"),
        (["plan", "--tasks", "many"], "--tasks"),
        (["plan", "--tasks", "1"], "--tasks"),
        (["plan", "--tasks", "9", "--samples", "1,,3"], "--samples"),
        (["plan", "--tasks", "9", "--cost-per-trial", "nan"], "--cost-per-trial"),
        (["import", "counts", "/nowhere.csv", "-o", "/nowhere"], "/nowhere.csv"),
        (["import", "records", "x.csv", "-o", "y"], "records"),
        (["import", "counts", "x.csv"], "-o"),
        (["clean", "everything"], "everything"),
        (["doctor", "\x1b[31m\n"], "unrecognized"),
    ],
)
def test_a_mistake_is_one_line_and_code_4(arguments, named, command):
    code, out, err = command(*arguments)
    assert (code, out) == (4, "")
    assert err.startswith("infranoise: ")
    assert err.count("\n") == 1
    assert named in err
    assert "\x1b" not in err


def test_other_failures_have_code_3(command, monkeypatch):
    def failing(error):
        def run(arguments):
            raise error

        monkeypatch.setattr(main_module, "_run", run)
        return command("report", "x")

    assert failing(InfranoiseError("no room")) == (3, "", "infranoise: no room\n")
    code, _, err = failing(ZeroDivisionError("a bug"))
    assert code == 3
    assert "Traceback" in err


def test_an_output_that_cannot_be_written_is_named():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*RUN, "plan", "--tasks", "9"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 3
    assert done.stderr.startswith("infranoise: ")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_leaves_ends_it_quietly(make_study):
    study = make_study(MANY_ROWS)
    process = subprocess.Popen(
        [*RUN, "report", "-v", str(study)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def test_an_interrupt_ends_it_quietly(make_study):
    study = make_study(CASES["S05"]["input"]["rows"])
    (study / "trials.jsonl").unlink()
    os.mkfifo(study / "trials.jsonl")  # nobody writes, so the report waits
    process = subprocess.Popen([*RUN, "report", str(study)], stderr=subprocess.PIPE)
    handle = None
    deadline = time.monotonic() + 60
    while handle is None and time.monotonic() < deadline:
        try:
            handle = os.open(study / "trials.jsonl", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # it has not opened its end yet
            time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 2
    assert process.stderr.read() == b""
    process.stderr.close()
    os.close(handle)


def test_a_name_that_the_output_cannot_show_is_escaped(make_study):
    study = make_study([("tâche", "1x", 1, 0, 0, 0, 0), ("b", "1x", 1, 0, 0, 0, 0)])
    done = subprocess.run(
        [*RUN, "report", "-v", str(study)],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "t\\xe2che" in done.stdout


def test_the_installed_script_is_this_function():
    from importlib.metadata import entry_points

    (script,) = entry_points(group="console_scripts", name="infranoise")
    assert script.load() is main
