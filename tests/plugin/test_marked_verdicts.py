"""Pytest's final report on a marked test is its trial's verdict, whoever made it so."""

import importlib.util
from collections import defaultdict

import pytest
from bench import BUSYBOX, Bench, hog

MARK = f'@pytest.mark.infra(memory="32M", image="{BUSYBOX}", timeout=20)'
OVER = f'infra_sandbox.exec("{hog(64)}").exit_code == 0'

CONFTEST = """
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call" and item.get_closest_marker("fails_late"):
        report.outcome, report.longrepr = "failed", "rewritten"
    if call.when == "call" and item.get_closest_marker("passes_late"):
        report.outcome, report.longrepr = "passed", None
    return report

def pytest_runtest_logreport(report):
    if report.when == "call" and "fails_last" in report.keywords:
        report.outcome, report.longrepr = "failed", "rewritten"

@pytest.fixture
def checked():
    yield
    pytest.fail("the finaliser found something")

@pytest.fixture
def broken():
    yield
    raise RuntimeError("no verdict, but no pass either")
"""

TESTS = {
    # name: (what stands before, arguments, body, outcome, or None for no record)
    "subtest_killed": ("", "subtests", f"with subtests.test(): assert {OVER}", "oom"),
    "subtest_then_fine": (
        "",
        "subtests",
        f'with subtests.test(): assert {OVER}\n    infra_sandbox.exec("true")',
        "oom",
    ),
    "subtest_deadline": (
        "",
        "subtests",
        'with subtests.test(): assert infra_sandbox.exec("sleep 9", timeout=0.3).exit_code == 0\n'
        '    infra_sandbox.exec("true")',
        "timeout",
    ),
    "subtest_passes": ("", "subtests", "with subtests.test(): pass", "passed"),
    "subtest_skips": ("", "subtests", 'with subtests.test(): pytest.skip("x")', "passed"),
    "soft": ("", "", f"import pytest_check as check\n    check.is_true({OVER})", "oom"),
    "fails_late": ("@pytest.mark.fails_late", "", f"{OVER}", "oom"),
    "fails_last": ("@pytest.mark.fails_last", "", f"{OVER}", "oom"),
    "passes_late": ("@pytest.mark.passes_late", "", f"assert {OVER}", "passed"),
    "finaliser": ("", "checked", OVER, "oom"),
    "teardown_error": ("", "broken", 'infra_sandbox.exec("true")', "failed"),
    "expected": ('@pytest.mark.xfail(reason="x")', "", f"assert {OVER}", "oom"),
    "expected_inside": ("", "", f'assert {OVER} or pytest.xfail("x")', "oom"),
    "unexpected_pass": ('@pytest.mark.xfail(reason="x")', "", "pass", "passed"),
    "strict": ('@pytest.mark.xfail(reason="x", strict=True)', "", "pass", "failed"),
    "skips": ("", "", 'infra_sandbox.exec("false"); pytest.skip("x")', None),
    "skips_killed": ("", "", f'{OVER} or pytest.skip("x")', "oom"),
    "survives": ("", "", OVER, "passed"),
}


def write_suite(bench: Bench, names: list[str]) -> None:
    lines = ["import pytest\n"]
    for name in names:
        before, more, body, _ = TESTS[name]
        arguments = ", ".join(filter(None, ["infra_sandbox", more]))
        lines.append(f"{MARK}\n{before}\ndef test_{name}({arguments}):\n    {body}\n")
    bench.pytester.makepyfile(test_suite="\n".join(lines))
    bench.pytester.makeconftest(CONFTEST)


def run(bench: Bench, *args: str) -> pytest.RunResult:
    return bench.pytester.runpytest_subprocess(
        f"--infra-backend={bench.engine}", "-p", "no:cacheprovider", *args, timeout=120
    )


def usable() -> list[str]:
    """The tests that this environment's plugins let run."""
    has_subtests = hasattr(pytest, "Subtests") or importlib.util.find_spec("pytest_subtests")
    return [name for name, (_, more, _, _) in TESTS.items() if has_subtests or more != "subtests"]


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_the_final_report_is_the_verdict(bench: Bench, workers: str) -> None:
    names = usable()
    write_suite(bench, names)
    result = run(bench, workers)
    found = {record["task"].rpartition("::test_")[2]: record for record in bench.records()}
    expected = {name: TESTS[name][3] for name in names if TESTS[name][3] is not None}
    assert {name: record["outcome"] for name, record in found.items()} == expected
    text = result.stdout.str()
    assert "INTERNALERROR" not in text
    assert "1 error(s) besides the trials' outcomes" in text  # the finaliser that is broken
    assert found["survives"]["oom_kills"] == found["passes_late"]["oom_kills"] == 1


def test_what_pytest_expects_fails_no_session(one_bench: Bench) -> None:
    write_suite(one_bench, ["expected", "skips_killed"])
    result = run(one_bench, "-n0")
    result.assert_outcomes(xfailed=1, skipped=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["exit code 0: 2 trial(s) did not pass, which pytest does not count as failed: expected*"]
    )


def test_a_failure_is_shown_as_pytest_shows_it(one_bench: Bench) -> None:
    one_bench.pytester.makepyfile(
        test_suite=f"import pytest\n\n{MARK}\ndef test_work(infra_sandbox):\n"
        f'    print("on the way")\n    assert {OVER}\n'
    )
    result = run(one_bench, "-n0")
    result.stdout.fnmatch_lines(
        [
            "=* OOM *=",
            "_* test_work* _*",
            ">       assert *",
            "E       *exit_code*137*",
            "test_suite.py:6: AssertionError",
            "-* Captured stdout call -*",
            "on the way",
            "OOM test_suite.py::test_work *ended_phase: killed in agent, limit 32 MiB",
        ]
    )
    lines = run(one_bench, "-n2", "--tb=line", "-q").stdout
    lines.fnmatch_lines(["=* OOM *=", "*test_suite.py:6: *assert*137*"])
    lines.fnmatch_lines(["OOM test_suite.py::test_work* - killed in agent"])
    assert "Captured stdout" not in lines.str()
    bare = run(one_bench, "-n0", "--tb=no", "-q", "-rN").stdout
    bare.no_fnmatch_line("*= OOM =*")
    bare.no_fnmatch_line("OOM *")
    data = run(one_bench, "-n0", "--infra-exit=study")
    data.stdout.no_fnmatch_line("*= OOM =*")
    assert data.ret == 0


AGAIN = f"""
import pytest
from pathlib import Path

{MARK}
{{marks}}
def test_work(infra_sandbox):
    tries = Path("tries")
    tries.write_text((tries.read_text() if tries.exists() else "") + "x")
    if len(tries.read_text()) < {{fine_from}}:
        assert {OVER}
"""


SILENT = """
import pytest
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    for _ in range(3):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if not any(report.failed for report in reports):
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    return True
"""
"""Runs a failed test again and shows the last run alone, as the plugin `flaky` does."""


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
@pytest.mark.parametrize("is_silent", [False, True])
@pytest.mark.parametrize("fine_from", [3, 9])
def test_attempts_are_attempts_wherever_they_come_from(
    one_bench: Bench, is_silent: bool, workers: str, fine_from: int
) -> None:
    marks = "" if is_silent else "@pytest.mark.flaky(reruns=2)"
    text = AGAIN.format(marks=marks, fine_from=fine_from)
    one_bench.pytester.makepyfile(test_suite=text)
    one_bench.pytester.makeconftest(SILENT if is_silent else "")
    result = run(one_bench, workers)
    by_outcome = defaultdict(list)
    for record in one_bench.records():
        by_outcome[record["outcome"]].append(record["attempt"])
    passes = fine_from == 3
    assert by_outcome == ({"oom": [1, 2], "passed": [3]} if passes else {"oom": [1, 2, 3]})
    assert result.ret == (0 if passes else 1)
    words = "does not count as failed: *" if passes else "counts as failed; *"
    result.stdout.fnmatch_lines([f"exit code *: 1 trial(s) did not pass, which pytest {words}"])
    result.stdout.no_fnmatch_line("*= * [23] oom*")


def test_a_task_that_is_run_again_has_attempts(local_bench: Bench) -> None:
    local_bench.task("calm", "false")
    result = local_bench.run("--infra-multipliers=1", "-n0", "--reruns=1")
    assert [record["attempt"] for record in local_bench.records()] == [1, 2]
    result.stdout.fnmatch_lines(["=* 1 failed, 1 rerun in *"])


PROPERTIES = f"""
import decimal, enum, pathlib
import pytest

class Colour(enum.Enum):
    RED = 1

class Rude:
    def __str__(self): raise ValueError

{MARK}
def test_work(infra_sandbox, record_property):
    for value in (Colour.RED, pathlib.Path("x"), decimal.Decimal("1.5"), Rude(), {{"a": [Rude]}}):
        record_property("fact", value)
    record_property("text", "\\udcff")

def test_other(record_property, request):
    record_property("fact", object())
    request.node.user_properties.append("no pair")
"""


def test_no_property_ends_a_session(local_bench: Bench) -> None:
    local_bench.pytester.makepyfile(test_suite=PROPERTIES)
    result = run(local_bench, "-n1")
    result.assert_outcomes(passed=2, warnings=2)  # one for each name
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["*user property 'fact' of type Colour cannot be sent by xdist; kept as 'Colour.RED'"]
    )
    assert [record["outcome"] for record in local_bench.records()] == ["passed"]


STRAYS = f"""
import unittest
import pytest

{MARK}
def test_without(): pass

{MARK}
def test_late(request): request.getfixturevalue("infra_sandbox")

{MARK}
class TestOld(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _sandbox(self, infra_sandbox): self.sandbox = infra_sandbox

    def test_work(self): self.sandbox.exec("true")

    def test_parts(self):
        with self.subTest(part=1): assert self.sandbox.exec("false").exit_code == 0
"""


def test_a_mark_that_makes_no_trial_is_said(local_bench: Bench) -> None:
    local_bench.pytester.makepyfile(test_suite=STRAYS)
    result = run(local_bench, "-n0", "--infra-multipliers=1,2")
    result.stdout.fnmatch_lines_random(
        [
            "*test_without: has @pytest.mark.infra but not the fixture infra_sandbox, so it is *",
            "*test_late*: infra_sandbox must be an argument of the test, or of a fixture that is*",
            "*test_work: pytest gives no parameters to methods of unittest.TestCase, so this one*",
        ]
    )
    result.assert_outcomes(passed=1, failed=1, errors=2, warnings=2)


def test_methods_of_test_cases_are_trials_where_there_is_one_set(local_bench: Bench) -> None:
    local_bench.pytester.makepyfile(test_suite=STRAYS)
    run(local_bench, "-n0", "-k", "TestOld")
    found = {record["task"].rpartition("::")[2]: record for record in local_bench.records()}
    assert {name: record["outcome"] for name, record in found.items()} == {
        "test_work": "passed",
        "test_parts": "failed",
    }


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_an_engine_that_is_down_is_said_once(
    local_bench: Bench, workers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"{MARK}\ndef test_{name}(infra_sandbox): pass\n" for name in "abc"]
    text = "import pytest\n" + "\n".join(lines) + "\ndef test_other(): pass\n"
    local_bench.pytester.makepyfile(test_suite=text)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{local_bench.path}/nobody.sock")
    result = local_bench.pytester.runpytest_subprocess(
        "--infra-backend=docker", "-p", "no:cacheprovider", workers, timeout=60
    )
    text = result.stdout.str()
    assert "Traceback" not in text
    result.stdout.fnmatch_lines(
        ["*3 trial(s) did not run: *nobody.sock*", "=*1 passed, 3 not run*"]
    )
    assert text.count("nobody.sock") == 2  # when it came to a halt, and in the summary
    assert result.ret == pytest.ExitCode.INTERRUPTED
