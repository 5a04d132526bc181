"""Task folders of Terminal-Bench 1: what is read, and what is refused by name."""

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from terminal_bench_compose import COMPOSE

from pytest_infranoise.agents.shell import script_command
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.outcome import Cause
from pytest_infranoise.model.task import Task
from pytest_infranoise.tasks.discovery import discover
from pytest_infranoise.tasks.marked_block import BY_PARSER
from pytest_infranoise.tasks.pytest_summary import PytestSummaryGrader, summary_results
from pytest_infranoise.units import MIB

TASK = "instruction: |-\n  Make it.\n  Well.\n"
FILES = {
    "task.yaml": TASK,
    "docker-compose.yaml": COMPOSE,
    "Dockerfile": "FROM python:3.11-slim-bookworm\nWORKDIR /app\n",
    "run-tests.sh": "#!/bin/bash\npytest $TEST_DIR/test_outputs.py -rA\n",
    "solution.sh": "#!/bin/bash\ntrue\n",
    "tests/test_outputs.py": "def test_it(): pass\n",
}
Read = Callable[..., Task]


@pytest.fixture
def warnings() -> list[str]:
    """What the last reading warned of."""
    return []


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warnings: list[str]) -> Read:
    """Return a function that reads a task folder with some files otherwise, or without them."""
    monkeypatch.chdir(tmp_path)

    def read_one(
        files: Mapping[str, str | None] | None = None,
        *,
        memory: int | None = 256 * MIB,
        uses_solution: bool = True,
        host: Mapping[str, str] | None = None,
    ) -> Task:
        for name, text in {**FILES, **(files or {})}.items():
            if text is not None:
                path = tmp_path / "old" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, newline="")
        found = discover(
            [tmp_path],
            default_memory_bytes=memory,
            host_environment=host or {},
            uses_solution=uses_solution,
        )
        warnings[:] = found.warnings
        (task,) = found.tasks
        return task

    return read_one


def compose(**client: str) -> dict[str, str]:
    """Return a compose file whose client has these lines more, written as YAML."""
    lines = "".join(f"    {key}: {value}\n" for key, value in client.items())
    return {"docker-compose.yaml": f"services:\n  client:\n    build: .\n{lines}"}


def test_a_folder_is_a_task(read: Read, warnings: list[str], tmp_path: Path) -> None:
    task = read()
    assert (task.name, task.instruction) == ("old", "Make it.\nWell.")
    assert (task.agent_timeout_seconds, task.verifier_timeout_seconds) == (360, 60)
    assert task.spec.memory_limit_bytes == 256 * MIB
    assert task.spec.cpu_limit_cores is None
    assert task.image.docker_image is None
    assert task.image.build_context == tmp_path / "old"
    assert task.environment == {"TEST_DIR": "/tests"}
    assert task.tests == tmp_path / "old/tests"
    assert task.solution_files["solution.sh"] == FILES["solution.sh"]
    assert task.test_files["run-tests.sh"] == FILES["run-tests.sh"]
    assert task.notes == (
        "memory 256 MiB from infra_default_memory: Terminal-Bench 1 declares none",
    )
    assert warnings == []


def test_times_are_those_of_the_file(read: Read) -> None:
    task = read({"task.yaml": TASK + "max_agent_timeout_sec: 900\nmax_test_timeout_sec: 180.5\n"})
    assert (task.agent_timeout_seconds, task.verifier_timeout_seconds) == (900, 180.5)


def test_a_task_toml_beside_goes_first(read: Read) -> None:
    files = {
        "task.toml": '[environment]\nmemory = "1G"\n',
        "instruction.md": "New.\n",
        "environment/Dockerfile": FILES["Dockerfile"],
        "tests/test.sh": "true\n",
    }
    assert read(files).instruction == "New.\n"


def test_a_task_yaml_of_another_tool_is_no_task(read: Read, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected 1, got 0"):
        read({"run-tests.sh": None, "docker-compose.yaml": None})


def test_a_path_into_the_folder_stands_for_the_task(read: Read, tmp_path: Path) -> None:
    read()
    for inner in ("task.yaml", "tests/test_outputs.py", "."):
        found = discover([tmp_path / "old" / inner], default_memory_bytes=MIB, host_environment={})
        assert [task.name for task in found.tasks] == ["old"]


def test_what_the_client_is_made_of(read: Read, tmp_path: Path, warnings: list[str]) -> None:
    (tmp_path / "old/inner").mkdir(parents=True)
    (tmp_path / "old/inner/Dockerfile").write_text("FROM busybox\n")
    task = read(
        {
            "docker-compose.yaml": """
services:
  client:
    build: {context: inner, dockerfile: Dockerfile}
    working_dir: /work
    user: "1000:1000"
    environment:
      PORT: 80
      GIVEN: ${GIVEN}
      ABSENT:
      PASSED:
      DEFAULT: a-${NONE:-b}-$$HOME
    ports: ["80:80"]
    tty: true
version: "3"
x-note: any
"""
        },
        host={"GIVEN": "here", "PASSED": "through"},
    )
    assert task.image.build_context == tmp_path / "old/inner"
    assert task.environment == {
        "PORT": "80",
        "GIVEN": "here",
        "PASSED": "through",
        "DEFAULT": "a-b-$HOME",
    }
    assert (task.workdir, task.agent_user, task.verifier_user) == (
        "/work",
        "1000:1000",
        "root",
    )
    assert warnings == ["old: docker-compose.yaml: services.client.ports: has no effect"]


@pytest.mark.parametrize(
    "text",
    [
        COMPOSE + "  redis: {image: redis, mem_limit: 32m}\n",
        COMPOSE + "networks: {inner: {}}\n",
        "services: {client: {build: ., cap_add: [NET_ADMIN]}}",
        "services: {client: {build: ., volumes: ['data:/data']}}\nvolumes: {data: {}}",
        "services: {client: {build: ., volumes: 3}}",
        "services: {client: {build: {target: a}}}",
        "services: {client: {build: {dockerfile: Other}}}",
    ],
    ids=["service", "network", "key", "volume", "volumes", "target", "dockerfile"],
)
def test_what_no_single_container_has_is_left_to_compose(
    read: Read, tmp_path: Path, text: str
) -> None:
    task = read({"docker-compose.yaml": text})
    assert task.compose is not None
    assert (task.compose.main, task.compose.file) == (
        "client",
        tmp_path / "old/docker-compose.yaml",
    )
    assert task.compose.variables["T_BENCH_TEST_DIR"] == "/tests"
    assert (dict(task.environment), task.workdir) == ({}, None)
    helpers = {item.name: item.memory_limit_bytes for item in task.compose.helpers}
    assert helpers == ({"redis": 32 * MIB} if "redis" in text else {})
    assert task.spec.beside_memory_bytes == sum(helpers.values())


def test_what_one_container_has_needs_no_compose(read: Read) -> None:
    assert read().compose is None


def test_a_variable_that_is_not_set_is_empty_as_in_compose(read: Read) -> None:
    task = read(compose(environment="{A: 'x${NO_SUCH}y'}"))
    assert task.environment == {"A": "xy"}


def test_an_image_may_be_named(read: Read) -> None:
    task = read({"docker-compose.yaml": "services: {client: {image: 'some:1'}}"})
    assert (task.image.docker_image, task.image.build_context) == ("some:1", None)


def test_an_unknown_key_is_a_warning(read: Read, warnings: list[str]) -> None:
    read({"task.yaml": TASK + "colour: red\ndifficulty: easy\n"})
    assert warnings == ["old: colour: unknown key, ignored"]


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({"task.yaml": "a: [1"}, "old/task.yaml: not valid YAML: "),
        ({"task.yaml": "- 1"}, "old/task.yaml: must be a mapping of names, not [1]"),
        ({"task.yaml": "difficulty: easy"}, "old/task.yaml: instruction: must be text, not None"),
        ({"task.yaml": "instruction: 3"}, "old/task.yaml: instruction: must be text, not 3"),
        (
            {"task.yaml": TASK + "parser_name: swelancer"},
            "old/task.yaml: parser_name: 'swelancer' is not supported, only pytest, swebench, ",
        ),
        (
            {"task.yaml": TASK + "parser_name: [pytest]"},
            "old/task.yaml: parser_name: ['pytest'] is not supported, only pytest, swebench, ",
        ),
        (
            {"task.yaml": TASK + "run_tests_in_same_shell: maybe"},
            "old/task.yaml: run_tests_in_same_shell: must be true or false, not 'maybe'",
        ),
        (
            {"task.yaml": TASK + "max_agent_timeout_sec: soon"},
            "old/task.yaml: max_agent_timeout_sec: 'soon' is not a number of seconds",
        ),
        (
            {"task.yaml": TASK + "max_test_timeout_sec: 0"},
            "old/task.yaml: max_test_timeout_sec: 0 is not a number of seconds",
        ),
        ({"run-tests.sh": None}, "old/run-tests.sh: missing; a task without it"),
        ({"docker-compose.yaml": None}, "old/docker-compose.yaml: missing"),
        ({"docker-compose.yaml": "a: {"}, "old/docker-compose.yaml: not valid YAML: "),
        ({"docker-compose.yaml": "services:"}, "old/docker-compose.yaml: services.client: missing"),
        ({"Dockerfile": None}, "old/docker-compose.yaml: services.client.build: there is no old/"),
        (
            {"docker-compose.yaml": 'services: {client: {build: "a\\nb"}}'},
            "old/docker-compose.yaml: services.client.build.context: 'a\\nb' names no folder",
        ),
        (
            {"docker-compose.yaml": "services: {client: {build: ..}}"},
            "old/docker-compose.yaml: services.client.build.context: '..' lies outside the task's ",
        ),
        (
            {"docker-compose.yaml": "services: {client: {build: {context: /}}}"},
            "old/docker-compose.yaml: services.client.build.context: '/' lies outside the task's ",
        ),
        (
            {"docker-compose.yaml": f"services: {{client: {{build: {'a' * 5000}}}}}"},
            "old/docker-compose.yaml: services.client.build.context: 'aaa",
        ),
        (
            compose(working_dir="app"),
            "old/docker-compose.yaml: services.client.working_dir: 'app' is not an absolute",
        ),
        (
            compose(environment="{A: [1]}"),
            "old/docker-compose.yaml: services.client.environment.A: must be text or a number",
        ),
        (
            {"docker-compose.yaml": "services: {client: {working_dir: /app}}"},
            "old/docker-compose.yaml: services.client.build: missing",
        ),
        (
            {"solution.sh": None, "solution.yaml": "command: a"},
            "old/solution.yaml: must be a list of commands",
        ),
        (
            {"solution.sh": None, "solution.yaml": "- command: ''"},
            "old/solution.yaml: #1 command: must be text, not ''",
        ),
        (
            {
                "solution.sh": None,
                "solution.yaml": "- command: nano a\n- {command: hi, append_enter: false}\n",
            },
            "old/solution.yaml: #2 command: 'hi' is typed into a program",
        ),
        (
            {"solution.sh": None, "solution.yaml": "- command: cat\n- command: C-c\n"},
            "old/solution.yaml: #2 command: 'C-c' is typed into a program",
        ),
    ],
)
def test_what_cannot_be_had_is_one_line(
    read: Read, files: dict[str, str | None], line: str
) -> None:
    with pytest.raises(UsageError, match="^" + re.escape(line)) as caught:
        read(files)
    assert "\n" not in str(caught.value)


def test_no_memory_is_ever_invented(read: Read) -> None:
    with pytest.raises(UsageError, match=r"old/task\.yaml: Terminal-Bench 1 declares no memory.*"):
        read(memory=None)


def test_pyyaml_is_an_extra(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(UsageError, match=r"pip install 'PyYAML>="):
        read()


def test_a_solution_of_commands_is_a_script(read: Read) -> None:
    text = "- command: cd /tmp\n  block: true\n- command: |-\n    cat <<E >a\n    b\n    E\n"
    task = read({"solution.sh": None, "solution.yaml": text})
    assert task.solution_files["solution.sh"] == "cd /tmp\ncat <<E >a\nb\nE\n"


def test_a_solution_that_nobody_needs_is_not_read(read: Read) -> None:
    files = {"solution.sh": None, "solution.yaml": "- command: C-c\n"}
    assert read(files, uses_solution=False).solution_files == {}


@pytest.mark.parametrize("changed", ["solution.sh", "tests/test_outputs.py", "run-tests.sh"])
def test_the_digest_covers_every_file(read: Read, changed: str) -> None:
    assert read().digest != read({changed: "# other\n"}).digest


# --- pytest's short summary ---

SUMMARY = "=== short test summary info ===\n"


@pytest.mark.parametrize(
    ("lines", "passed", "detail"),
    [
        ("PASSED a.py::x\nPASSED a.py::y\n== 2 passed in 0.1s ==", True, None),
        (
            "PASSED a.py::x\nFAILED a.py::y - boom - bang\n",
            False,
            "1 of 2 tests did not pass, first a.py::y",
        ),
        ("FAILED a.py::x\nPASSED b.py::x\n", False, "1 of 2 tests did not pass, first a.py::x"),
        ("ERROR a.py - ImportError\n", False, "1 of 1 tests did not pass, first a.py"),
        ("SKIPPED [1] a.py:3: no\nXFAIL a.py::x - known\n", True, None),
        ("XPASS a.py::x\nPASSED a.py::y\n", False, "1 of 2 tests did not pass, first a.py::x"),
    ],
)
def test_every_test_of_the_summary_must_have_passed(
    lines: str, passed: bool, detail: str | None
) -> None:
    output = f"FAILED before the summary\n{SUMMARY}{lines}"
    verdict = PytestSummaryGrader().grade(output, "a proof that tests outweigh")
    assert (verdict.passed, verdict.score, verdict.detail) == (passed, float(passed), detail)
    assert verdict.problem is None


@pytest.mark.parametrize("output", ["", "boom\n", f"boom\n{SUMMARY}", "PASSED a.py::x\n"])
def test_no_summary_is_no_zero(output: str) -> None:
    verdict = PytestSummaryGrader().grade(output, None)
    assert (verdict.passed, verdict.problem) == (False, Cause.REWARD_MISSING)
    proven = PytestSummaryGrader().grade(output, "uv: command not found")
    assert (proven.problem, proven.detail) == (Cause.VERIFIER_BOOTSTRAP, "uv: command not found")


def test_a_parameter_may_hold_a_dash() -> None:
    found = summary_results(f"{SUMMARY}PASSED a.py::x[a - b]\nFAILED a.py::y[c-d] - boom\n")
    assert found == {"a.py::x[a - b]": True, "a.py::y[c-d]": False}


MARKED = "SWEBench results starts here\n{block}\nSWEBench results ends here\n"


@pytest.mark.parametrize(
    ("parser", "output", "score"),
    [
        ("swebench", MARKED.format(block="PASSED"), 1.0),
        ("swebench", "noise\n" + MARKED.format(block=" PASSED \n") + "noise\n", 1.0),
        ("swebench", MARKED.format(block="FAILED"), 0.0),
        ("swebench", MARKED.format(block=""), 0.0),
        ("swebench", MARKED.format(block="PASSED") * 2, 0.0),
        ("swebench", "SWEBench results starts here\nPASSED\n", None),
        ("swebench", "", None),
        ("sweperf", "SWE-Perf results starts here\nPASSED\nSWE-Perf results ends here", 1.0),
        ("mlebench", "MLEBench results starts here\nPASSED\nMLEBench results ends here", 0.0),
        (
            "mlebench",
            "MLEBench results starts here\nALL TESTS PASSED\nMLEBench results ends here",
            1.0,
        ),
    ],
)
def test_parsers_of_a_word_between_marks(
    read: Read, parser: str, output: str, score: float | None
) -> None:
    grader = read({"task.yaml": TASK + f"parser_name: {parser}"}).grader
    assert grader == BY_PARSER[parser]
    verdict = grader.grade(output, None)
    assert (verdict.passed, verdict.score) == (score == 1.0, score)
    assert verdict.problem is (Cause.REWARD_MISSING if score is None else None)
    if score is None:
        proven = grader.grade(output, "curl: (6) Could not resolve host: x")
        assert proven.problem is Cause.VERIFIER_BOOTSTRAP


def test_who_runs_the_tests(read: Read) -> None:
    users = [
        read(compose(user="bob") | {"task.yaml": TASK + line}).verifier_user for line in SHELLS
    ]
    assert users == ["root", "root", "bob"]


SHELLS = ("", "run_tests_in_same_shell: false", "run_tests_in_same_shell: true")


def test_the_shell_of_the_tests_is_not_looked_up_in_path(read: Read, tmp_path: Path) -> None:
    planted, script = tmp_path / "bin" / "bash", tmp_path / "run-tests.sh"
    planted.parent.mkdir()
    planted.write_text("#!/bin/sh\necho planted\n")
    planted.chmod(0o755)
    script.write_text("echo own\n")
    wrapper = tmp_path / "wrapper.sh"
    text = read().test_files["infranoise-run-tests.sh"]
    wrapper.write_text(text.replace("/tests/run-tests.sh", str(script)))
    wrapper.chmod(0o755)
    path = {"PATH": f"{planted.parent}:/usr/bin:/bin"}
    sandbox: Any = SimpleNamespace(program=lambda name: f"/bin/{name}")
    command = script_command(sandbox, str(wrapper), text)
    result = subprocess.run(command, env=path, capture_output=True, text=True, check=True)
    assert result.stdout == "own\n"
