"""Rows of older data sets, read with a package whose surface is that of swebench 4.1."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.outcome import Cause
from pytest_infranoise.model.task import Task
from pytest_infranoise.tasks.resources import ResourceDefaults
from pytest_infranoise.tasks.swebench import read_instances
from pytest_infranoise.tasks.swebench_package import swebench_package
from pytest_infranoise.units import MIB

START, END = ">>>>> Start Test Output", ">>>>> End Test Output"
FILES = {
    "__init__.py": "__version__ = '4.1.0'",
    "harness/__init__.py": "",
    "harness/constants.py": f"""
from enum import Enum
START_TEST_OUTPUT, END_TEST_OUTPUT = {START!r}, {END!r}
APPLY_PATCH_FAIL = ">>>>> Patch Apply Failed"
FAIL_TO_PASS, PASS_TO_PASS = "FAIL_TO_PASS", "PASS_TO_PASS"
EvalType = Enum("EvalType", {{"PASS_AND_FAIL": "pass_and_fail", "FAIL_ONLY": "fail_only"}})
ResolvedStatus = Enum("ResolvedStatus", {{"FULL": "RESOLVED_FULL"}})
FAIL_ONLY_REPOS = {{"makers/chart"}}
SPEC = {{"test_cmd": "run-tests"}}
MAP_REPO_VERSION_TO_SPECS = {{"makers/tally": {{"1.0": SPEC}}, "makers/chart": {{"1.0": SPEC}}}}
MAP_REPO_TO_EXT = {{"makers/tally": "py", "makers/chart": "js"}}
""",
    "harness/log_parsers.py": """
def parse_log_tally(log, test_spec):
    return dict(line.split(" ")[::-1] for line in log.splitlines() if line.startswith("PASSED "))
MAP_REPO_TO_PARSER = {"makers/tally": parse_log_tally, "makers/chart": parse_log_tally}
""",
    "harness/grading.py": f"""
from swebench.harness.log_parsers import MAP_REPO_TO_PARSER
def get_logs_eval(spec, path):
    log = open(path).read()
    found = {START!r} in log and {END!r} in log
    return (MAP_REPO_TO_PARSER[spec.repo](log, spec) if found else {{}}), found
def get_eval_tests_report(statuses, wanted, eval_type):
    return {{
        key: {{"success": [name for name in names if name in statuses]}}
        for key, names in wanted.items()
    }} | {{"wanted": wanted}}
def get_resolution_status(report):
    wanted = report["wanted"]
    done = all(len(report[key]["success"]) == len(wanted[key]) for key in wanted)
    return "RESOLVED_FULL" if done else "RESOLVED_NO"
""",
    "harness/run_evaluation.py": "GIT_APPLY_CMDS = ['git apply --verbose']",
    "harness/test_spec/__init__.py": "",
    "harness/test_spec/create_scripts.py": f"""
def make_eval_script_list(row, specs, env_name, folder, base_commit, test_patch):
    begin, end = ": '{START}'", ": '{END}'"
    put = f"patch <<X\\n{{test_patch}}\\nX"
    return [f"cd {{folder}}", put, begin, specs["test_cmd"], end, "reset"]
""",
    "harness/test_spec/test_spec.py": """
from dataclasses import dataclass
@dataclass
class TestSpec:
    instance_id: str
    repo: str
    version: str
    repo_script_list: list
    eval_script_list: list
    env_script_list: list
    arch: str
    FAIL_TO_PASS: list
    PASS_TO_PASS: list
    language: str
    docker_specs: dict
    namespace: object
    @property
    def eval_script(self):
        return "\\n".join(self.eval_script_list) + "\\n"
""",
}
ROW = {
    "instance_id": "makers__tally-1",
    "repo": "makers/tally",
    "version": "1.0",
    "base_commit": "abc",
    "patch": "diff",
    "test_patch": "tests' diff",
    "problem_statement": "It is wrong.",
    "FAIL_TO_PASS": '["a"]',
    "PASS_TO_PASS": '["b"]',
}


@pytest.fixture(autouse=True)
def older_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put a package of the older surface in the place of the installed one."""
    for name, text in FILES.items():
        path = tmp_path / "site" / "swebench" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_ours(name)}
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.chdir(tmp_path)
    swebench_package.cache_clear()
    yield
    for name in [name for name in sys.modules if _is_ours(name)]:
        del sys.modules[name]
    sys.modules.update(kept)
    swebench_package.cache_clear()


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] == "swebench"


def read(**changes: Any) -> Task:
    Path("set.json").write_text(json.dumps([{**ROW, **changes}]))
    (task,) = read_instances(Path("set.json"), defaults=ResourceDefaults(512 * MIB, None))
    return task


def test_the_packages_tables_say_how_an_older_row_is_tested() -> None:
    task = read()
    assert task.test_files["eval.sh"].splitlines()[-5:] == [
        "run-tests",
        "infranoise_code=$?",
        f": '{END}'",
        'echo "INFRANOISE_TEST_EXIT_CODE=$infranoise_code"',
        "reset",
    ]
    assert "tests' diff" in task.test_files["eval.sh"]
    assert "graded by swebench 4.1.0" in task.notes
    spec = task.grader.spec  # type: ignore[union-attr]
    assert (spec.log_parser, spec.eval_type) == ("parse_log_tally", "pass_and_fail")
    other = read(repo="makers/chart").grader
    assert other.spec.eval_type == "fail_only"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("printed", "code", "passed", "problem"),
    [
        ("PASSED a\nPASSED b\n", 0, True, None),
        ("PASSED a\n", 1, False, None),
        ("no result\n", 1, False, None),
        ("run-tests: not there\n", 127, False, Cause.VERIFIER_BOOTSTRAP),
        ("", 0, False, Cause.VERIFIER_BOOTSTRAP),
    ],
)
def test_grading(printed: str, code: int, passed: bool, problem: Cause | None) -> None:
    grader = read().grader
    assert grader is not None
    log = f"+ : '{START}'\n{printed}+ : '{END}'\nINFRANOISE_TEST_EXIT_CODE={code}\n"
    verdict = grader.grade(log, None)
    assert (verdict.passed, verdict.problem) == (passed, problem), verdict


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": "9"}, "swebench 4.1.0 has no test commands for version 9 of makers/tally"),
        ({"repo": "a/b"}, "swebench 4.1.0 has no test commands for version 1.0 of a/b"),
        ({"test_patch": None}, "test_patch: must be text"),
        ({"eval_script": "x"}, "version 5 runs it: pip install -U swebench"),
        ({"FAIL_TO_PASS": 3}, "FAIL_TO_PASS: must be a list"),
    ],
)
def test_a_row_that_cannot_be_run_is_one_line(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(**changes)
    assert str(caught.value).startswith("set.json: makers__tally-1: ")
    assert words in str(caught.value)


def test_a_byte_order_mark_of_a_data_set_is_read_over() -> None:
    for name, text in (("set.json", json.dumps([ROW])), ("set.jsonl", json.dumps(ROW) + "\n")):
        Path(name).write_text(text, encoding="utf-8-sig")
        (task,) = read_instances(Path(name), defaults=ResourceDefaults(512 * MIB, None))
        assert task.name == ROW["instance_id"]
