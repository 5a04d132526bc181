"""Gates through real pytest processes: what they make of the exit code."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, hog
from shared import SharedFolder

HEAD = f"""
import pytest

small = pytest.mark.infra(memory="16M", timeout=30)
HOG = "{hog(32)}"
"""
TEST = """

@small
@pytest.mark.parametrize("number", range({count}))
def test_{name}(infra_sandbox, number):
    {body}
"""
BODIES = {
    "calm": 'assert infra_sandbox.exec("true").exit_code == 0',
    "hungry": "assert infra_sandbox.exec(HOG).exit_code == 0",
    "doomed": 'infra_sandbox.exec(HOG)\n    pytest.fail("whatever the limit")',
}
TWO_SETS = ("--infra-multipliers=1,4", "--infra-exit=study")


def suite(folder: Path, **counts: int) -> Path:
    tests = (
        TEST.format(name=name, count=count, body=BODIES[name]) for name, count in counts.items()
    )
    (folder / "test_suite.py").write_text(HEAD + "".join(tests))
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


def ask(pytester: pytest.Pytester, folder: Path, *args: str) -> pytest.RunResult:
    """Run pytest in this process, for what runs no trial."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return pytester.runpytest_inprocess(
            "--infra-backend=local", "-p", "no:cacheprovider", *args
        )


def run(folder: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest", "--infra-backend=local", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *args], cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )


def made(folder: Path, **tests: int) -> Path:
    """Run a suite over two sets, without gates; its study can be judged again and again."""
    done = run(suite(folder, **tests), *TWO_SETS, "--infra-study=study")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def rescued(shared_folder: SharedFolder, local_backend: Any) -> Path:
    """Eight tests that only the kill at 1x keeps from passing, and one that always passes."""
    return shared_folder("rescued", lambda folder: made(folder, calm=1, hungry=8))


@pytest.fixture(scope="module")
def equivalent(shared_folder: SharedFolder, local_backend: Any) -> Path:
    """Ten tests that are killed at 1x and fail at 4x, and so many others that scores are equal."""
    return shared_folder("equivalent", lambda folder: made(folder, calm=72, doomed=10))


@pytest.fixture(scope="module")
def calm(shared_folder: SharedFolder, local_backend: Any) -> Path:
    """Two tests that always pass."""
    return shared_folder("calm", lambda folder: made(folder, calm=2))


Judged = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def judged(pytester: pytest.Pytester) -> Judged:
    """Return a function that judges a study in a session that finds nothing left to run."""

    def judge(study: Path, *gates: str, more: tuple[str, ...] = ()) -> tuple[int, list[str]]:
        given = [f"--infra-gate={gate}" for gate in gates]
        done = ask(pytester, study, "--infra-study=study", "--infra-resume", "-n0", *given, *more)
        lines = [line for line in done.outlines if line.startswith("gate ")]
        assert len(lines) == len(gates), done.outlines + done.errlines
        return int(done.ret), lines

    return judge


ACCEPTED = ("--infra-accept-engine",)


@pytest.mark.usefixtures("local_backend")
@pytest.mark.parametrize(
    ("study", "gates"),
    [
        (
            "rescued",
            [
                "infra_error_rate<=2%@4x",
                "upper(infra_error_rate)<=50%@4x",
                "success_rate>=95%@4x",
                "agent_failure_rate<=0",
                "no-oom@4x",
                "no-kill@4x",
                "lift(4x)>=50pp",
                "lower(lift(4x))>0",
            ],
        ),
        ("equivalent", ["lift(4x)~0+-3pp", "recommended", "recommended=4x", "recommended<=4x"]),
    ],
)
def test_every_form_passes(
    request: pytest.FixtureRequest, judged: Judged, study: str, gates: list[str]
) -> None:
    code, lines = judged(request.getfixturevalue(study), *gates, more=ACCEPTED)
    assert [line.split(": ")[:2] for line in lines] == [["gate passed", gate] for gate in gates]
    assert code == 0


@pytest.mark.usefixtures("local_backend")
@pytest.mark.parametrize(
    ("study", "gate", "word"),
    [
        ("rescued", "infra_error_rate<=0.02@1x", "failed"),
        ("rescued", "upper(infra_error_rate)<=5%@4x", "failed"),
        ("rescued", "success_rate>=95%", "failed"),
        ("equivalent", "agent_failure_rate<=0", "failed"),
        ("rescued", "no-oom@1x", "failed"),
        ("rescued", "no-kill", "failed"),
        ("rescued", "lift(4x)<=3pp", "failed"),
        ("equivalent", "lower(lift(4x))>0", "failed"),
        ("rescued", "lift(4x)~0+-3pp", "failed"),
        ("calm", "lift(4x)~0+-3pp", "not decidable"),
        ("calm", "recommended", "failed"),
        ("rescued", "recommended", "not decidable"),
        ("calm", "recommended=4x", "failed"),
        ("calm", "recommended<=4x", "failed"),
    ],
)
def test_every_form_fails_the_session(
    request: pytest.FixtureRequest, judged: Judged, study: str, gate: str, word: str
) -> None:
    code, (line,) = judged(request.getfixturevalue(study), gate, more=ACCEPTED)
    assert line.startswith(f"gate {word}: {gate}: ")
    assert code == 1


def test_a_local_engine_is_accepted_by_name_only(judged: Judged, equivalent: Path) -> None:
    code, (line,) = judged(equivalent, "recommended")
    assert line.startswith("gate not decidable: recommended: withheld: 4x would be recommended")
    assert code == 1


def test_one_that_does_not_pass_is_enough(judged: Judged, rescued: Path) -> None:
    code, lines = judged(rescued, "no-oom@4x", "no-oom@1x", "recommended")
    assert [line.split(":")[0] for line in lines] == [
        "gate passed", "gate failed", "gate not decidable",
    ]  # fmt: skip
    assert code == 1


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--infra-exit=study", "--infra-gate=no-oom@4x"), 0, "trials are data (1 did not pass)"),
        (("--infra-gate=no-oom@4x",), 1, "1 trial(s) did not pass, which pytest counts as failed"),
        (("--infra-exit=study", "--infra-gate=no-oom@1x"), 1, "of 1 gate(s), 1 failed"),
        (
            ("--infra-exit=study", "--infra-gate=no-oom@1x", "--infra-gate=lift(4x)~0+-3pp", "-n2"),
            1,
            "of 2 gate(s), 1 failed and 1 not decidable",
        ),
    ],
)
def test_trials_are_data_and_gates_are_not(
    local_bench: Bench, options: tuple[str, ...], code: int, words: str
) -> None:
    suite(local_bench.path, calm=1, hungry=1)
    done = run(local_bench.path, "--infra-multipliers=1,4", *options)
    assert done.returncode == code
    assert f"exit code {code}: {words}" in done.stdout


def test_an_error_of_a_test_stays_one(local_bench: Bench) -> None:
    suite(local_bench.path, calm=1)
    with (local_bench.path / "test_suite.py").open("a") as file:
        file.write("\n\ndef test_other():\n    raise ValueError\n")
    done = run(local_bench.path, *TWO_SETS, "--infra-gate=no-oom")
    assert done.returncode == 1
    assert "gate passed: no-oom" in done.stdout


def test_what_did_not_run_cannot_pass(local_bench: Bench) -> None:
    """`-x` stops at the kill, which `--infra-exit=study` alone would call a success."""
    suite(local_bench.path, hungry=3)
    one = ("--infra-multipliers=1,4", "--infra-seed=3", "--infra-order=sequential", "-x", "-n0")
    done = run(local_bench.path, *one, "--infra-exit=study", "--infra-gate=infra_error_rate>=1%@1x")
    assert "gate not decidable: infra_error_rate>=1%@1x: 5 selected trials without" in done.stdout
    assert done.returncode == 1


def test_a_test_that_skips_itself_is_not_missing(local_bench: Bench) -> None:
    suite(local_bench.path, calm=1)
    with (local_bench.path / "test_suite.py").open("a") as file:
        file.write(
            '\n\n@small\n@pytest.mark.skipif(True, reason="elsewhere")\n'
            "def test_other(infra_sandbox):\n    pass\n"
        )
    for workers in ("-n0", "-n2"):
        done = run(local_bench.path, *TWO_SETS, "--infra-gate=no-oom@1x", workers)
        assert "2 of 2 trials" in done.stdout
        assert "gate passed: no-oom@1x: no oom at 1x in 1 trial" in done.stdout
        assert done.returncode == 0


def test_an_ini_gate_is_for_studies_alone(local_bench: Bench) -> None:
    suite(local_bench.path, hungry=1)
    (local_bench.path / "pytest.ini").write_text(
        "[pytest]\ninfra_gate =\n    no-oom@4x\n    no-oom@1x\n"
    )
    (local_bench.path / "test_plain.py").write_text("def test_plain():\n    pass\n")
    assert run(local_bench.path, "test_plain.py").returncode == 0
    done = run(local_bench.path, *TWO_SETS)
    assert done.returncode == 1
    assert done.stdout.count("\ngate ") == 2


def test_a_gate_without_a_trial_is_not_passed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_plain="def test_plain():\n    pass\n")
    done = ask(pytester, pytester.path, "--infra-gate=no-oom", "test_plain.py")
    assert done.ret == 1
    assert "--infra-gate was given, but no trial was selected to judge it by" in str(done.stdout)
    assert ask(pytester, pytester.path, "--infra-gate=no-oom", "--collect-only").ret == 0


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
@pytest.mark.parametrize(
    ("gate", "message", "caret"),
    [
        ("no-oom@3x", "the study has no parameter set '3x'; it has 1x, 4x", 7),
        ("infra_error_rate=2%", "compare with <=, >=, <, >", 16),
        ("lift(1x)<=3pp", "1x is the baseline, which the others are compared with", 5),
    ],
)
def test_a_mistake_is_said_before_anything_runs(
    plain_bench: Bench, gate: str, message: str, caret: int, workers: str
) -> None:
    suite(plain_bench.path, calm=1)
    options = ("--infra-multipliers=1,4", f"--infra-gate={gate}", workers)
    done = ask(plain_bench.pytester, plain_bench.path, *options)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert done.errlines[:3] == [
        f"ERROR: --infra-gate: {message}", f"  {gate}", " " * (2 + caret) + "^",
    ]  # fmt: skip
    assert not plain_bench.studies()


def test_an_ini_mistake_names_its_file(plain_bench: Bench) -> None:
    suite(plain_bench.path, calm=1)
    (plain_bench.path / "pytest.ini").write_text("[pytest]\ninfra_gate = no-oom@9x\n")
    done = ask(plain_bench.pytester, plain_bench.path, *TWO_SETS)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert "pytest.ini: infra_gate: the study has no parameter set '9x'" in str(done.stderr)


def report(study: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest_infranoise", "report", str(study / "study"), *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_report_judges_a_finished_study(rescued: Path) -> None:
    done = report(rescued, "--gate", "no-oom@4x")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("gate passed: no-oom@4x: ")
    done = report(rescued, "--gate", "no-oom@4x", "--gate", "no-oom@1x", "--format", "json")
    assert done.returncode == 1
    assert [item["verdict"] for item in json.loads(done.stdout)["gates"]] == ["passed", "failed"]
    done = report(rescued, "--gate", "no-oom@9x")
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.splitlines()[1:] == ["  no-oom@9x", "         ^"]


def test_report_passes_nothing_of_a_study_that_grows(rescued: Path, tmp_path: Path) -> None:
    shutil.copytree(rescued / "study", tmp_path / "study")
    journal = tmp_path / "study" / "trials.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:-2]))
    done = report(tmp_path, "--gate", "no-oom@4x", "--gate", "no-oom@1x")
    assert done.returncode == 1
    assert "gate not decidable: no-oom@4x: 2 selected trials without a record" in done.stdout
    assert "gate failed: no-oom@1x" in done.stdout
