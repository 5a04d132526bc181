"""Scripts without an interpreter line, and what else the format runs by bash, in real trials."""

from collections.abc import Callable
from pathlib import Path

import pytest
from bench import Bench
from sandboxes import PYTHON

ONLY_BASH = "[[ -n $BASH_VERSION && ${BASH_SOURCE[0]} == /* ]]"
HEALTH = '[environment.healthcheck]\ncommand = "[[ -d /app ]]"\nretries = 1\n'
COLLECT = '[[verifier.collect]]\ncommand = "[[ -e done ]] && touch collected"\n'
STEPS = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
REWARD = "[ -e /app/collected ] && echo 1 >/logs/verifier/reward.txt"


def plain(folder: Path, name: str, text: str) -> None:
    """Write a script without an interpreter line."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text + "\n")


def test_each_phase_runs_by_bash(
    pytester: pytest.Pytester, docker_image: Callable[[str], str]
) -> None:
    docker_image(PYTHON)
    bench = Bench(pytester, "docker")
    for name, toml in (("once", ""), ("steps", STEPS), ("apart", "")):
        folder = bench.task(name, extra=HEALTH + COLLECT + toml)
        (folder / "environment/Dockerfile").write_text(f"FROM {PYTHON}\nWORKDIR /app\n")
        plain(folder, "solution/solve.sh", f"{ONLY_BASH} && touch /app/done")
        plain(folder, "tests/test.sh", f"{ONLY_BASH} && {REWARD}")
        for step in ("one", "two") if toml else ():
            plain(folder, f"steps/{step}/instruction.md", "Do it.")
            plain(folder, f"steps/{step}/workdir/setup.sh", "[[ -n $BASH_VERSION ]]")
    apart = bench.path / "bench" / "apart" / "task.toml"
    separate = 'environment_mode = "separate"\n[environment]'
    text = apart.read_text().replace("[environment]", separate, 1)
    apart.write_text('artifacts = ["/app/collected"]\n' + text)
    bench.run("--infra-multipliers=1", "-n2")
    assert {item["task"]: item["outcome"] for item in bench.records()} == dict.fromkeys(
        ("once", "steps", "apart"), "passed"
    )
    assert not any("bash" in note for item in bench.records() for note in item["notes"])


def test_sh_stands_in_where_the_image_has_no_bash(bench: Bench) -> None:
    folder = bench.task("small")
    plain(folder, "solution/solve.sh", "touch /app/done")
    bench.task("own-line")
    bench.run("--infra-multipliers=1", "-n0")
    notes = {item["task"]: (item["outcome"], item["notes"]) for item in bench.records()}
    note = "solve.sh, without an interpreter line, is meant for bash, which the image does not have"
    expected = [f"{note}: run by /bin/sh"] if bench.engine == "docker" else []  # the host has bash
    assert notes["small"] == ("passed", expected)
    assert notes["own-line"] == ("passed", [])
