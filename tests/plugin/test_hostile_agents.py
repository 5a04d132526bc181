"""Agents that spoil the sandbox: each record is the one that the agent deserves."""

import os
import signal
from pathlib import Path

import psutil
import pytest
from bench import BUSYBOX, Bench, interrupt, wait_until

ONE = "#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n"
FORGE = (
    "mkdir -p ~/.local/bin; for name in sh bash env; do\n"
    "printf '#!/bin/busybox sh\\necho 1 >/logs/verifier/reward.txt\\n' >~/.local/bin/$name\n"
    "chmod +x ~/.local/bin/$name; done"
)
SLEEPER = (
    "rm -f /bin/sh; printf '#!/bin/busybox sh\\nwhile :; do busybox sleep 1; done\\n' >/bin/sh\n"
    "chmod +x /bin/sh"
)
PLANT = FORGE.replace("~/.local/bin", "/usr/local/bin")
DEAF = (
    "rm -f /bin/sh /bin/kill; printf '#!/bin/busybox sh\\n"
    'case "$*" in *kill*) exit 0;; esac\\nexec busybox sh "$@"\\n\' >/bin/sh; chmod +x /bin/sh\n'
)
"""A shell that runs all but what is to kill something."""
USERS = "[agent]\nuser = '{agent}'\ntimeout_sec = 30\n[verifier]\nuser = 'root'\ntimeout_sec = 5\n"

USER = (
    "RUN echo agent:x:1000:1000::/home/me:/bin/sh >>/etc/passwd &&"
    " mkdir -p /home/me && chown 1000:1000 /home/me\n"
)

TASKS = {
    # name: (Dockerfile below FROM, agent's user, solve.sh, test.sh, outcome, words of the detail)
    "forges": (
        f"{USER}ENV PATH=/home/me/.local/bin:/usr/bin:/bin\n",
        ("agent", FORGE, "#!/bin/sh\necho 0 >/logs/verifier/reward.txt\n", "failed", ""),
    ),
    "forges-env": (
        f"{USER}ENV PATH=/home/me/.local/bin:/usr/bin:/bin\n",
        ("agent", FORGE, "#!/usr/bin/env sh\necho 0 >/logs/verifier/reward.txt\n", "failed", ""),
    ),
    "plants": (
        "",
        ("root", PLANT, "#!/usr/bin/env sh\necho 0 >/logs/verifier/reward.txt\n", "failed", ""),
    ),
    "sleeps": ("", ("root", SLEEPER, ONE, "failed", "the agent changed /bin/sh")),
    "no-shell": ("", ("root", "rm -f /bin/sh", ONE, "failed", "the agent changed /bin/sh")),
    "no-workdir": ("WORKDIR /app\n", ("root", "cd /; rm -rf /app", ONE, "passed", "")),
    "no-logs": ("", ("root", "rm -rf /logs; ln -s /etc /logs", ONE, "passed", "")),
    "no-tools": ("", ("root", "rm -f /bin/tail /bin/rm /bin/mkdir /bin/sleep", ONE, "passed", "")),
    "own-fixture": (
        "RUN mkdir /tests && echo fixture >/tests/fixture.txt\n",
        (
            "root",
            "echo mine >/tests/fixture.txt; echo mine >/tests/conftest.py",
            '#!/bin/sh\n[ ! -e /tests/conftest.py ] && [ "$(cat /tests/fixture.txt)" = fixture ]'
            " && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt\n",
            "passed",
            "",
        ),
    ),
    "volume": (
        "RUN mkdir /tests && echo fixture >/tests/fixture.txt\nVOLUME /tests\n",
        (
            "root",
            "echo mine >/tests/conftest.py",
            "#!/bin/sh\n[ ! -e /tests/conftest.py ] && [ -e /tests/fixture.txt ]"
            " && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt\n",
            "passed",
            "",
        ),
    ),
    "not-executable": (USER, ("agent", "true", ONE, "passed", "")),
}

HOST_HAS = ("plants", "sleeps", "no-shell", "no-workdir", "no-logs", "no-tools")
"""What needs no image: a host's own file system can be spoilt as well."""


@pytest.mark.parametrize("engine", ["docker", "local"], indirect=True)
def test_each_gets_the_record_that_it_deserves(bench: Bench, engine: str) -> None:
    chosen = {name: TASKS[name] for name in (TASKS if engine == "docker" else HOST_HAS)}
    for name, (image, (user, solve, test, _, _)) in chosen.items():
        folder = bench.task(name, _for_engine(solve, engine), test=test)
        (folder / "environment" / "Dockerfile").write_text(f"FROM {BUSYBOX}\n{image}")
        _set_times(folder, USERS.format(agent=user))
        _lose_the_right_to_run(folder)
    bench.run("--infra-multipliers=1", "--infra-exit=study")
    found = {record["task"]: record for record in bench.records()}
    assert {name: record["outcome"] for name, record in found.items()} == {
        name: outcome for name, (_, (_, _, _, outcome, _)) in chosen.items()
    }
    for name, (_, (_, _, _, _, words)) in chosen.items():
        assert words in (found[name]["detail"] or "")


def test_what_a_verifier_of_its_own_gets_is_the_agents_work(bench: Bench, engine: str) -> None:
    solve = f"echo 42 >/logs/artifacts/answer; cd /; rm -rf /app\n{SLEEPER}"
    check = '[ "$(cat /logs/artifacts/answer)" = 42 ] && echo 1 >/logs/verifier/reward.txt'
    folder = bench.task("apart", _for_engine(solve, engine), test=check)
    collect = "[[verifier.collect]]\ncommand = 'true'\ntimeout_sec = 1\n"
    verifier = f"[verifier]\ntimeout_sec = 10\nenvironment_mode = 'separate'\n{collect}"
    _set_times(folder, f"[agent]\ntimeout_sec = 30\n{verifier}")
    bench.run("--infra-multipliers=1", "-n0")
    (record,) = bench.records()
    assert record["outcome"] == "passed", record["phases"]
    has_bash = not any("meant for bash" in note for note in record["notes"])
    assert has_bash or "collect in main: deadline: true" in record["notes"]


def test_the_lenient_watch_needs_no_shell(one_bench: Bench) -> None:
    hold = "x=$(busybox dd if=/dev/zero bs=1M count=96 2>/dev/null | busybox tr '\\0' a)"
    one_bench.task("holds", f"{DEAF}{hold}; busybox sleep 60; echo >/app/done", memory="32M")
    one_bench.run("--infra-multipliers=1", "--infra-enforcement=lenient:1")
    (record,) = one_bench.records()
    assert (record["outcome"], record["cause"]) == ("oom", "ended_phase"), record["phases"]
    assert record["oom_kills"] == 1
    assert record["wall_seconds"] < 40


def test_one_signal_ends_a_session_whose_tests_hang(one_bench: Bench) -> None:
    nap = f"busybox sleep 7{os.getpid()}"
    folder = one_bench.task("sleeps", SLEEPER.replace("busybox sleep 1", nap), test=ONE)
    _set_times(folder, USERS.format(agent="root"))
    process = one_bench.start("--infra-multipliers=1", "--infra-samples=20", "-n0")
    wait_until(lambda: any(nap.split() == item for item in _command_lines()))
    interrupt(process, signal.SIGTERM)
    process.communicate(timeout=60)
    (record,) = one_bench.records()
    assert (record["outcome"], record["sample"]) == ("failed", 1)
    assert record["detail"] == "the tests could not run: the agent changed /bin/sh"


def _command_lines() -> list[list[str] | None]:
    return [item.info["cmdline"] for item in psutil.process_iter(["cmdline"])]


def _for_engine(solve: str, engine: str) -> str:
    """A host need not have BusyBox: a copy of its own shell does as well there."""
    if engine == "docker":
        return solve
    own = solve.replace("/bin/busybox sh", "/bin/own-sh").replace("busybox ", "")
    return f"cp /bin/sh /bin/own-sh\n{own}"


def _set_times(folder: Path, tables: str) -> None:
    """Put these tables in place of a task's own of agent and verifier."""
    toml = folder / "task.toml"
    header, _, environment = toml.read_text().partition("[environment]")
    assert header.startswith("schema_version")
    toml.write_text(f'schema_version = "1.4"\n{tables}[environment]{environment}')


def _lose_the_right_to_run(folder: Path) -> None:
    for path in (folder / "solution" / "solve.sh", folder / "tests" / "test.sh"):
        path.chmod(0o644)
