"""A task folder of Terminal-Bench 1 as its authors write it, run in a container."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench import BUSYBOX, Bench
from sandboxes import PYTHON
from swebench_repository import COMMON_LAYERS
from terminal_bench_compose import COMPOSE

TESTS = """import os
from pathlib import Path


def test_greeting():
    assert Path("/app/greeting.txt").read_text() == "Hello\\n"


def test_the_tests_stand_where_the_format_says():
    assert __file__ == os.environ["TEST_DIR"] + "/test_outputs.py" == "/tests/test_outputs.py"
"""


@pytest.fixture
def bench(pytester: pytest.Pytester, docker_image: Callable[[str], str]) -> Bench:
    docker_image(PYTHON)
    return Bench(pytester, "docker")


def task(bench: Bench, name: str, *, run_tests: str = "python3 -m pytest $TEST_DIR -rA") -> Path:
    directory = bench.path / "bench" / name
    (directory / "tests").mkdir(parents=True)
    (directory / "task.yaml").write_text("instruction: Write a greeting.\nparser_name: pytest\n")
    (directory / "docker-compose.yaml").write_text(COMPOSE)
    (directory / "Dockerfile").write_text(COMMON_LAYERS + "WORKDIR /app\nCOPY note.txt ./\n")
    (directory / "note.txt").write_text("Hello\n")
    (directory / "run-tests.sh").write_text(f"#!/bin/bash\n{run_tests}\n")
    (directory / "tests/test_outputs.py").write_text(TESTS)
    (directory / "tests/test.sh").write_text("exit 1  # a file of the task's own, not what runs\n")
    return directory


def test_oracle_agent_and_broken_tests(bench: Bench) -> None:
    (task(bench, "by-script") / "solution.sh").write_text(
        "[[ -e note.txt ]] && cp note.txt greeting.txt"
    )
    commands = "- command: cd /app\n- command: mv note.txt greeting.txt\n  block: true\n"
    (task(bench, "by-commands") / "solution.yaml").write_text(commands)
    (task(bench, "wrong") / "solution.sh").write_text("echo Bye >greeting.txt\n")
    offline = task(bench, "offline", run_tests="uv run pytest $TEST_DIR/test_outputs.py -rA")
    (offline / "solution.sh").write_text("true\n")
    bench.run("--infra-samples=1", "-n2", "--infra-default-memory=64M")
    records = {record["task"]: record for record in bench.records()}
    assert {name: (item["outcome"], item["cause"]) for name, item in records.items()} == {
        "by-script": ("passed", None),
        "by-commands": ("passed", None),
        "wrong": ("failed", None),
        "offline": ("infra_error", "verifier_bootstrap"),
    }
    detail = records["wrong"]["detail"]
    assert detail == "1 of 2 tests did not pass, first ../tests/test_outputs.py::test_greeting"
    assert "uv: command not found" in records["offline"]["detail"]
    assert records["wrong"]["memory_limit_bytes"] == 64 * 1024**2
    manifest = json.loads((bench.studies()[-1] / "manifest.json").read_text())
    assert all("infra_default_memory" in item["notes"][0] for item in manifest["tasks"])


SERVICES = (
    COMPOSE
    + """    depends_on: [store]
  store:
    image: {image}
    command: ["sh", "-c", "mkdir /www; echo Hello >/www/word; httpd -f -p 80 -h /www"]
    mem_limit: 16m
"""
)


def test_a_client_with_a_service_beside_it(bench: Bench, compose_backend: Any) -> None:
    directory = task(bench, "served")
    # Compose of version 1 knows no default for the context.
    services = SERVICES.replace("{image}", BUSYBOX).replace("build:", "build:\n      context: .")
    (directory / "docker-compose.yaml").write_text(services)
    fetch = "curl -sf --retry 9 --retry-connrefused http://store/word >greeting.txt"
    (directory / "solution.yaml").write_text(f"- command: cd /app\n- command: {fetch}\n")
    bench.run("--infra-samples=1", "-n0", "--infra-default-memory=64M")
    (record,) = bench.records()
    assert (record["outcome"], record["detail"]) == ("passed", None)
    assert record["memory_limit_bytes"] == 64 * 1024**2
    (task_facts,) = json.loads((bench.studies()[-1] / "manifest.json").read_text())["tasks"]
    assert task_facts["spec"]["beside_memory_bytes"] == 16 * 1024**2


def test_the_default_for_memory_must_be_named(bench: Bench) -> None:
    task(bench, "greeting")
    result = bench.run("--infra-samples=1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: bench/greeting/task.yaml: *ini option infra_default_memory"]
    )


def test_tests_in_the_shell_that_was_typed_into(bench: Bench) -> None:
    run_tests = """
echo SWEBench results starts here
[[ $PWD == /srv && $WORD == 'two words' && -z $LOCAL ]] && echo PASSED || echo FAILED "$PWD"
echo SWEBench results ends here"""
    commands = "- command: cd /srv\n- command: export WORD='two words'; LOCAL=1\n"
    for name, same_shell in (("same", "true"), ("own", "false")):
        directory = task(bench, name, run_tests=run_tests)
        (directory / "task.yaml").write_text(
            "instruction: Go there.\nparser_name: swebench\n"
            f"run_tests_in_same_shell: {same_shell}\n"
        )
        (directory / "solution.yaml").write_text(commands)
    bench.run("--infra-samples=1", "-n2", "--infra-default-memory=64M")
    assert {item["task"]: (item["outcome"], item["detail"]) for item in bench.records()} == {
        "same": ("passed", None),
        "own": ("failed", "the tests say 'FAILED /app'"),
    }
