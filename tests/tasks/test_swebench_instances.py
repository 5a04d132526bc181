"""Data sets and predictions of SWE-bench, read without any container."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from swebench_repository import FIXED, Repository

from pytest_infranoise.agents.shell import script_command
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.outcome import Cause, Verdict
from pytest_infranoise.tasks import swebench_package as package_module
from pytest_infranoise.tasks.resources import ResourceDefaults
from pytest_infranoise.tasks.swebench import (
    image_of,
    patch_files,
    read_instances,
    read_predictions,
)
from pytest_infranoise.tasks.swebench_package import SwebenchGrader, swebench_package
from pytest_infranoise.tasks.swebench_scripts import apply_script, verification_files
from pytest_infranoise.units import MIB

DEFAULTS = ResourceDefaults(512 * MIB, 1.0)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository.make(tmp_path_factory.mktemp("tally") / "source")


@pytest.fixture
def row(repository: Repository) -> Callable[..., dict[str, Any]]:
    return lambda **changes: repository.row(changes.pop("image", None), **changes)


def write(folder: Path, rows: object, name: str = "set.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(rows))
    return path


def test_an_instance_is_a_task(tmp_path: Path, row: Callable[..., dict[str, Any]]) -> None:
    (task,) = read_instances(write(tmp_path, [row()]), defaults=DEFAULTS, agent_timeout_seconds=900)
    assert task.name == "makers__tally-1"
    assert task.instruction == "total() forgets the first number."
    assert task.image.docker_image == "swebench/sweb.eval.x86_64.makers_1776_tally-1:latest"
    assert task.spec.memory_guarantee_bytes == task.spec.memory_limit_bytes == 512 * MIB
    assert task.spec.cpu_limit_cores == 1.0
    assert (task.workdir, task.agent_timeout_seconds) == ("/testbed", 900)
    assert task.verifier_timeout_seconds == 1800
    assert set(task.solution_files) == {"patch.diff", "solve.sh"}
    assert set(task.test_files) == {"test.sh", "take-diff.sh", "eval.sh"}
    # The package's own spec, which records the exit code of the tests' command.
    assert "SWEBENCH_TEST_EXIT_CODE=$?" in task.test_files["eval.sh"]
    assert task.notes[0] == "memory 512 MiB from infra_default_memory: SWE-bench declares none"


def test_the_shell_of_the_tests_is_not_looked_up_in_path(tmp_path: Path) -> None:
    for name in ("bash", "sh"):
        planted = tmp_path / "bin" / name
        planted.parent.mkdir(exist_ok=True)
        planted.write_text("#!/bin/sh\necho planted\n")
        planted.chmod(0o755)
    texts = verification_files("echo own\n", "abc", "refused")
    texts["take-diff.sh"] = "echo taken >&2\n"
    for name, text in texts.items():
        moved = text.replace("/tests/", f"{tmp_path}/").replace("/logs/agent", str(tmp_path))
        (tmp_path / name).write_text(moved.replace("/tmp/take-diff.txt", f"{tmp_path}/taken"))
    sandbox: Any = SimpleNamespace(program=lambda name: f"/bin/{name}")
    command = script_command(sandbox, str(tmp_path / "test.sh"), texts["test.sh"])
    path = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    result = subprocess.run(command, env=path, capture_output=True, text=True, check=True)
    assert (result.stdout, (tmp_path / "taken").read_text()) == ("own\n", "taken\n")


@pytest.mark.parametrize("form", ["json list", "json mapping", "jsonl", "parquet"])
def test_every_kind_of_file_holds_the_same(
    tmp_path: Path, row: Callable[..., dict[str, Any]], form: str
) -> None:
    rows = [row(instance_id=name) for name in ("b-1", "a-1")]
    rows[0]["problem_statement"] = "A line\u2028separator."
    path = tmp_path / f"set.{form.split()[0]}"
    if form == "parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif form == "jsonl":
        path.write_text("\n".join(json.dumps(item, ensure_ascii=False) for item in rows) + "\n\n")
    else:
        by_id = {item["instance_id"]: item for item in rows}
        path.write_text(json.dumps(by_id if form == "json mapping" else rows))
    found = read_instances(path, defaults=DEFAULTS)
    as_json = read_instances(write(tmp_path, rows, "other.json"), defaults=DEFAULTS)
    assert [(task.name, task.digest) for task in found] == [
        (task.name, task.digest) for task in as_json
    ]
    assert [task.name for task in found] == ["b-1", "a-1"]


def test_lists_of_tests_may_be_lists(tmp_path: Path, row: Callable[..., dict[str, Any]]) -> None:
    (task,) = read_instances(
        write(tmp_path, [row(FAIL_TO_PASS=["a"], PASS_TO_PASS=[])]), defaults=DEFAULTS
    )
    assert isinstance(task.grader, SwebenchGrader)
    assert (task.grader.spec.FAIL_TO_PASS, task.grader.spec.PASS_TO_PASS) == (["a"], [])


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"instance_id": None}, "set.json: #1: instance_id: must be text, and is missing"),
        ({"instance_id": "a::b"}, "set.json: a::b: instance_id: not a name of *"),
        ({"instance_id": "a\nb"}, "set.json: #1: instance_id: not a name of *"),
        ({"instance_id": "a" * 500 + "/"}, "set.json: #1: instance_id: not a name of *"),
        ({"repo": 3}, "set.json: makers__tally-1: repo: must be text"),
        ({"base_commit": ""}, "set.json: makers__tally-1: base_commit: must be text, and is *"),
        ({"patch": "\ud800"}, "*: patch: holds characters that no file can hold"),
        ({"eval_script": None}, "*: eval_script: missing, as in older *'swebench<5'"),
        ({"log_parser": None}, "*: log_parser: missing, as in older *"),
        ({"log_parser": "parse_log_none"}, "*: log_parser: swebench 5* has no 'parse_log_none'"),
        ({"eval_type": "some"}, "*: eval_type: must be one of pass_and_fail, fail_only"),
        ({"FAIL_TO_PASS": "a"}, "*: FAIL_TO_PASS: must be a list of tests' names, *"),
        ({"FAIL_TO_PASS": "[" * 100_000}, "*: FAIL_TO_PASS: must be a list of tests' names, *"),
        ({"PASS_TO_PASS": None}, "*: PASS_TO_PASS: must be a list of tests' names, *"),
        ({"image": 3}, "*: image: must be text"),
        ({"image_assets": {"test_patch": [{}]}}, "*: image_assets: *; leave this instance out"),
    ],
)
def test_a_malformed_row_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    row: Callable[..., dict[str, Any]],
    changes: dict[str, Any],
    line: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path, [row(**changes)])
    with pytest.raises(UsageError) as caught:
        read_instances(path, defaults=DEFAULTS)
    pytest.LineMatcher([str(caught.value)]).fnmatch_lines([line])


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("set.csv", b"", "set.csv: name a .json, .jsonl or .parquet file"),
        ("set.json", b"{", "set.json: not valid JSON: *"),
        ("set.json", b"[]", "set.json: must hold a list of objects, and at least one"),
        ("set.json", b"3", "set.json: must hold a list of objects, and at least one"),
        ("set.json", b"[3]", "set.json: #1 is not an object"),
        ("set.json", b"\xff", "set.json: cannot be read: *"),
        ("set.jsonl", b"{}\n{", "set.jsonl: line 2: not valid JSON: *"),
        ("set.parquet", b"PAR1", "set.parquet: not a valid Parquet file: *"),
    ],
)
def test_a_malformed_file_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_instances(tmp_path / name, defaults=DEFAULTS)
    pytest.LineMatcher([str(caught.value)]).fnmatch_lines([line])
    assert "\n" not in str(caught.value)


def test_an_instance_stands_there_once(tmp_path: Path, row: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(UsageError, match="makers__tally-1: stands there twice"):
        read_instances(write(tmp_path, [row(), row()]), defaults=DEFAULTS)


def test_no_memory_is_ever_invented(tmp_path: Path, row: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(UsageError, match=r"set\.json: cannot be read: .*No such file"):
        read_instances(tmp_path / "set.json", defaults=ResourceDefaults())
    path = write(tmp_path, [row()])
    with pytest.raises(UsageError, match=r"\.json: SWE-bench declares no memory.*infra_default"):
        read_instances(path, defaults=ResourceDefaults())


@pytest.mark.parametrize(
    ("named", "template", "image"),
    [
        (None, None, "swebench/sweb.eval.x86_64.some_1776_repo-1:latest"),
        ("own:1", None, "own:1"),
        ("own:1", "here/{instance_id}", "here/some__repo-1"),
        (None, "here/{docker_id}:x", "here/some_1776_repo-1:x"),
        (None, "all", "all"),
    ],
)
def test_images_go_by_template_then_row_then_publication(
    named: str | None, template: str | None, image: str
) -> None:
    assert image_of({"instance_id": "Some__Repo-1", "image": named}, template, "x") == image


def test_predictions_are_one_models(tmp_path: Path) -> None:
    rows = [
        {"instance_id": "a", "model_name_or_path": "m", "model_patch": "p"},
        {"instance_id": "b", "model_name_or_path": "m", "model_patch": None},
    ]
    found = read_predictions(write(tmp_path, rows))
    assert (found.model, found.patches) == ("m", {"a": "p", "b": ""})
    other = read_predictions(write(tmp_path, list(reversed(rows)), "other.json"))
    assert other.digest == found.digest
    nameless = [{"instance_id": "a", "model_patch": "p"}]
    assert read_predictions(write(tmp_path, nameless, "mine.json")).model == "mine"


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([{"model_patch": ""}], "p.json: #1: instance_id: must be text, and is missing"),
        ([{"instance_id": "a\n"}], "p.json: #1: model_patch: missing"),
        ([{"instance_id": "a"}], "p.json: a: model_patch: missing"),
        ([{"instance_id": "a", "model_patch": 3}], "p.json: a: model_patch: must be text"),
        ([{"instance_id": "a", "model_patch": ""}] * 2, "p.json: a: has two predictions; *"),
        (
            [{"instance_id": name, "model_patch": "", "model_name_or_path": name} for name in "ab"],
            "p.json: model_name_or_path: names both 'a' and 'b'; *",
        ),
    ],
)
def test_malformed_predictions_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[Any], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        read_predictions(write(tmp_path, rows, "p.json"))
    pytest.LineMatcher([str(caught.value)]).fnmatch_lines([line])


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    package_module.swebench_package.cache_clear()
    monkeypatch.setitem(sys.modules, "swebench", None)
    with pytest.raises(UsageError, match=r"pip install 'swebench>="):
        swebench_package()


def test_an_older_package_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    swebench_package()
    package_module.swebench_package.cache_clear()
    monkeypatch.delattr(sys.modules["swebench.harness.utils"], "make_test_spec")
    with pytest.raises(UsageError, match=r"version 5, or 4\.1 for older"):
        swebench_package()


def test_loading_the_package_sets_no_variables(tmp_path: Path) -> None:
    """Its import reads a .env file; what stands there is nobody's wish."""
    source = (
        "import dotenv, os\n"
        "dotenv.load_dotenv = lambda *a, **k: os.environ.update(STRAY='1')\n"
        "from pytest_infranoise.tasks.swebench_package import swebench_package\n"
        "swebench_package()\n"
        "assert 'STRAY' not in os.environ and 'PATH' in os.environ\n"
    )
    subprocess.run([sys.executable, "-c", source], check=True, env={**os.environ})


# --- the log of the evaluation script ---

START, END = ">>>>> Start Test Output", ">>>>> End Test Output"
PASSED_FIRST, PASSED_OLD = (
    f"PASSED tests/test_tally.py::test_{name}" for name in ("first", "nothing")
)
RAN = "===== test session starts ====="


def log(*lines: str, code: int | None = 0) -> str:
    inside = ["+ python3 -m pytest", *lines]
    ending = [] if code is None else [f">>>>> Test Exit Code: {code}"]
    return "\n".join([f"+ : '{START}'", *inside, f"+ : '{END}'", *ending, ""])


@pytest.fixture
def grade(tmp_path: Path, row: Callable[..., dict[str, Any]]) -> Callable[..., Verdict]:
    (task,) = read_instances(write(tmp_path, [row()]), defaults=DEFAULTS)
    assert task.grader is not None
    grader = task.grader
    return lambda output, proof=None: grader.grade(output, proof)


PROOF = "curl: (6) Could not resolve host: packages.some.org"


@pytest.mark.parametrize(
    ("output", "proof", "passed", "problem", "detail"),
    [
        (log(RAN, PASSED_FIRST, PASSED_OLD), None, True, None, None),
        (log(RAN, PASSED_FIRST, PASSED_OLD), PROOF, True, None, None),
        (
            log(RAN, PASSED_FIRST, "FAILED tests/test_tally.py::test_nothing - boom", code=1),
            None, False, None, "FAIL_TO_PASS 1 of 1, PASS_TO_PASS 0 of 1",
        ),
        (
            log(RAN, PASSED_OLD, "SKIPPED tests/test_tally.py::test_first"),
            None, False, None, "FAIL_TO_PASS 0 of 1, PASS_TO_PASS 1 of 1",
        ),
        # A failed set-up of the runner explains nothing where tests have failed.
        (
            log(RAN, PASSED_OLD, "FAILED tests/test_tally.py::test_first", code=1),
            PROOF, False, None, "FAIL_TO_PASS 0 of 1, PASS_TO_PASS 1 of 1",
        ),
        # Lines of passed tests that a patch prints do not outweigh the exit code.
        (
            log(PASSED_FIRST, PASSED_OLD, code=3),
            None, False, None, "the tests' command ended with 3, though no test failed",
        ),
        (
            "+ pip install\nfatal: no\n", None, False, Cause.VERIFIER_BOOTSTRAP,
            f"the log has no {START!r}; its last line: fatal: no",
        ),
        (
            "", None, False, Cause.VERIFIER_BOOTSTRAP,
            f"the log has no {START!r}; its last line: nothing",
        ),
        ("+ pip install\n", PROOF, False, Cause.VERIFIER_BOOTSTRAP, PROOF),
        (
            f"+ : '{START}'\n{PASSED_FIRST}\n", None, False, Cause.VERIFIER_BOOTSTRAP,
            f"the log has no {END!r}; its last line: {PASSED_FIRST}",
        ),
        (log("No module named pytest", code=1), PROOF, False, Cause.VERIFIER_BOOTSTRAP, PROOF),
        (
            log("eval.sh: tox: command not found", code=127), None, False,
            Cause.VERIFIER_BOOTSTRAP,
            "the tests' command ended with 127: eval.sh: tox: command not found",
        ),
        (
            log(code=0), None, False, Cause.VERIFIER_BOOTSTRAP,
            "the tests' command ended with 0: nothing",
        ),
        # What the patch itself broke is the patch's failure.
        (
            log("Traceback (most recent call last):", "SyntaxError: invalid syntax", code=1),
            None, False, None, "no test gave a result: SyntaxError: invalid syntax",
        ),
        (
            ">>>>> Patch Apply Failed\nerror: no such\nfile\n", None, False, None,
            "the patch does not apply: error: no such file",
        ),
    ],
)  # fmt: skip
def test_a_log_is_judged(
    grade: Callable[..., Verdict],
    output: str,
    proof: str | None,
    passed: bool,
    problem: Cause | None,
    detail: str | None,
) -> None:
    verdict = grade(output, proof)
    assert (verdict.passed, verdict.problem, verdict.detail) == (passed, problem, detail)
    assert verdict.score == (None if problem else float(passed))


def test_a_log_of_any_bytes_is_judged(grade: Callable[..., Verdict]) -> None:
    noise = bytes(range(256)).decode("utf-8", "replace")
    assert grade(log(RAN, noise, PASSED_FIRST, PASSED_OLD)).passed


def test_a_parser_that_fails_is_no_judgement(
    grade: Callable[..., Verdict], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> dict[str, str]:
        raise KeyError("x")

    parsers: Any = swebench_package().parsers
    monkeypatch.setitem(parsers, "parse_log_pytest", fail)
    verdict = grade(log(PASSED_FIRST))
    assert verdict.problem is Cause.REWARD_INVALID
    assert verdict.detail == "parse_log_pytest failed: KeyError: 'x'"


def test_the_tests_of_fail_only_instances_need_not_be_named(
    tmp_path: Path, row: Callable[..., dict[str, Any]]
) -> None:
    path = write(tmp_path, [row(eval_type="fail_only")])
    (task,) = read_instances(path, defaults=DEFAULTS)
    assert task.grader is not None
    assert task.grader.grade(log("3 passing", code=0), None).passed
    assert not task.grader.grade(log("some words", code=1), None).passed


# --- the scripts, on a repository of this host ---


@pytest.fixture
def testbed(tmp_path: Path, repository: Repository) -> Repository:
    """A copy of the repository, in which scripts can work."""
    copy = Repository(tmp_path / "testbed")
    subprocess.run(["git", "clone", "-q", repository.path, copy.path], check=True)
    (tmp_path / "logs").mkdir()
    return copy


def play(folder: Path, files: dict[str, str], name: str) -> subprocess.CompletedProcess[str]:
    """Run one of an instance's scripts with the paths of this host in place of the sandbox's."""
    scripts = folder / "scripts"
    scripts.mkdir(exist_ok=True)
    for file, text in files.items():
        text = text.replace("/testbed", f"{folder}/testbed").replace(
            "/logs/agent", f"{folder}/logs"
        )
        text = text.replace("/tests/", f"{scripts}/").replace("/tmp/take", f"{folder}/take")
        (scripts / file).write_text(text)
    command = ["sh", str(scripts / name)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_patch_that_applies_only_in_the_second_way_is_applied(
    tmp_path: Path, testbed: Repository
) -> None:
    lines = [f"line {number}\n" for number in range(9)]
    path = testbed.path / "list.txt"
    path.write_text("".join(lines))
    testbed.git("add", ".")
    testbed.git("commit", "-qm", "List")
    patch = testbed.patch("list.txt", "".join([*lines[:4], "changed\n", *lines[5:]]))
    path.write_text("".join([*lines[:1], "otherwise\n", *lines[2:]]))
    testbed.git("commit", "-qam", "Change what the patch knows")
    assert subprocess.run(
        ["git", "-C", testbed.path, "apply", "--check"], input=patch, text=True, check=False
    ).returncode
    found = play(tmp_path, patch_files(patch), "solve.sh")
    assert found.returncode == 0, found
    assert path.read_text().splitlines()[1:5] == ["otherwise", "line 2", "line 3", "changed"]


def test_a_patch_that_does_not_apply_leaves_the_tree_and_a_reason(
    tmp_path: Path, testbed: Repository, repository: Repository
) -> None:
    (testbed.path / "stray.txt").write_text("of the attempt\n")
    foreign = repository.patch("tally.py", FIXED).replace("numbers[1:]", "numbers[7:]")
    found = play(tmp_path, patch_files(foreign), "solve.sh")
    assert found.returncode == 1
    assert "patch failed: tally.py:1" in (tmp_path / "logs/patch-refused").read_text()
    assert testbed.git("status", "--porcelain") == ""


@pytest.mark.parametrize("patch", ["", " \n"])
def test_an_empty_patch_applies(tmp_path: Path, testbed: Repository, patch: str) -> None:
    found = play(tmp_path, patch_files(patch), "solve.sh")
    assert (found.returncode, found.stdout) == (0, "empty patch\n")
    assert (tmp_path / "logs/patch-applied").exists()


def test_the_ways_to_apply_are_those_of_the_package() -> None:
    commands = swebench_package().apply_commands
    script = apply_script(commands)
    assert [script.index(command) for command in commands] == sorted(
        script.index(command) for command in commands
    )
    assert commands[0] == "git apply --verbose"


@pytest.mark.parametrize("commits", [False, True])
def test_the_difference_to_the_base_commit_is_what_stays(
    tmp_path: Path, testbed: Repository, repository: Repository, commits: bool
) -> None:
    (testbed.path / "tally.py").write_text(FIXED)
    (testbed.path / "new.bin").write_bytes(bytes(range(256)))
    (testbed.path / "__pycache__").mkdir()
    (testbed.path / "__pycache__/kept").write_text("ignored files are no part of the difference\n")
    if commits:
        testbed.git("add", ".")
        testbed.git("commit", "-qm", "Work")
    files = verification_files("true", repository.commit, ">>>>> Patch Apply Failed")
    found = play(tmp_path, files, "take-diff.sh")
    assert found.returncode == 0, found
    assert testbed.git("rev-parse", "HEAD").strip() == repository.commit
    assert (testbed.path / "tally.py").read_text() == FIXED
    assert (testbed.path / "new.bin").read_bytes() == bytes(range(256))
    diff = (tmp_path / "logs/model.patch").read_text()
    assert "+    return sum(numbers)" in diff
    assert "new.bin" in diff
    assert "kept" not in diff
