"""SWE-bench instances run as tasks: a real repository's tests in a container built from it."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from bench import Bench
from sandboxes import PYTHON, make_task
from swebench_repository import BUGGY, FIXED, HUNGRY_TESTS, Repository, eval_script

from pytest_infranoise.model.task import ImageSource

MODEL = "some-model"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository.make(tmp_path_factory.mktemp("tally") / "source")


@pytest.fixture(scope="module")
def image(
    tmp_path_factory: pytest.TempPathFactory,
    repository: Repository,
    docker_backend: Any,
    docker_image: Callable[[str], str],
) -> str:
    """The instance's image, built here."""
    docker_image(PYTHON)
    context = repository.context(tmp_path_factory.mktemp("image"))
    task = make_task(name="tally", image=ImageSource(build_context=context))
    return str(docker_backend.prepare(task, lambda line: None).reference)


@pytest.fixture
def run(pytester: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """Return a function that runs pytest over a data set of these rows."""

    def run_rows(rows: list[dict[str, Any]], *options: str) -> pytest.RunResult:
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (pytester.path / "instances.jsonl").write_text(lines)
        fixed = ("--infra-swebench=instances.jsonl", "--infra-backend=docker")
        memory = () if "--infra-default-memory" in " ".join(options) else (f"{MEMORY}=128M",)
        options = (*fixed, *memory, "-p", "no:cacheprovider", *options)
        return pytester.runpytest_subprocess(*options, timeout=240)

    return run_rows


MEMORY = "--infra-default-memory"


@pytest.fixture
def bench(pytester: pytest.Pytester) -> Bench:
    return Bench(pytester, "docker")


def write_predictions(bench: Bench, patches: Mapping[str, str | None]) -> str:
    rows = [
        {"instance_id": name, "model_name_or_path": MODEL, "model_patch": patch}
        for name, patch in patches.items()
    ]
    (bench.path / "predictions.json").write_text(json.dumps(rows))
    return "--infra-predictions=predictions.json"


def manifest_of(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((bench.studies()[-1] / "manifest.json").read_text())
    return found


def test_each_kind_of_prediction_is_judged(
    run: Callable[..., pytest.RunResult], bench: Bench, repository: Repository, image: str
) -> None:
    right = repository.patch("tally.py", FIXED)
    shifted = right.replace("@@ -1,2 +1,2 @@", "@@ -7,2 +7,2 @@")
    patches = {
        "right": right,
        "shifted": shifted,
        "empty": "",
        "null": None,
        "wrong": repository.patch("tally.py", "def total(numbers):\n    return 0\n"),
        "syntax": repository.patch("tally.py", BUGGY.replace(":\n", "\n", 1)),
        "foreign": right.replace("numbers[1:]", "numbers[7:]"),
        "unrun": right,
        "unbegun": right,
    }
    rows = [repository.row(image, instance_id=name) for name in patches]
    by_name = {row["instance_id"]: row for row in rows}
    test_patch = rows[0]["test_patch"]
    by_name["unrun"]["eval_script"] = eval_script(repository.commit, test_patch, "no-such-runner")
    by_name["unbegun"]["eval_script"] = "set -eu\nno-such-setup\n"
    result = run(rows, write_predictions(bench, patches), "-n2", "--infra-exit=study")
    assert result.ret == 0
    records = {record["task"]: record for record in bench.records()}
    found = {name: (item["outcome"], item["cause"]) for name, item in records.items()}
    unresolved = dict.fromkeys(("empty", "null", "wrong", "syntax", "foreign"), ("failed", None))
    resolved = dict.fromkeys(("right", "shifted"), ("passed", None))
    broken = dict.fromkeys(("unrun", "unbegun"), ("infra_error", "verifier_bootstrap"))
    assert found == {**resolved, **unresolved, **broken}
    assert records["empty"]["detail"] == "FAIL_TO_PASS 0 of 1, PASS_TO_PASS 1 of 1"
    assert records["syntax"]["detail"] == "FAIL_TO_PASS 0 of 1, PASS_TO_PASS 0 of 1"
    assert records["foreign"]["detail"].startswith(
        "the patch does not apply: error: patch failed: tally.py:1"
    )
    assert "no-such-runner: command not found" in records["unrun"]["detail"]
    assert "no-such-setup" in records["unbegun"]["detail"]
    assert {name: item["score"] for name, item in records.items() if item["score"]} == {
        "right": 1.0,
        "shifted": 1.0,
    }
    agent = manifest_of(bench)["agent"]
    assert agent["name"] == MODEL
    assert agent["predictions"] == "predictions.json"
    assert len(agent["predictions_sha256"]) == 64


def test_memory_decides_in_a_sweep_of_the_gold_patch(
    run: Callable[..., pytest.RunResult], bench: Bench, repository: Repository, image: str
) -> None:
    rows = [
        repository.row(image, tests=HUNGRY_TESTS.format(mib=120), instance_id="hungry"),
        repository.row(image, instance_id="calm"),
    ]
    options = ("--infra-memory-multipliers=1,3", "-n2", "--infra-exit=study")
    result = run(rows, "--infra-predictions=gold", f"{MEMORY}=96M", *options)
    assert result.ret == 0
    outcomes = {
        (item["task"], item["parameter_set"]): (item["outcome"], item["cause"])
        for item in bench.records()
    }
    passed, killed = ("passed", None), ("oom", "verifier")
    assert outcomes == {
        (task, name): killed if (task, name) == ("hungry", "mem1x-cpu1x") else passed
        for task in ("hungry", "calm")
        for name in ("mem1x-cpu1x", "mem3x-cpu1x")
    }
    manifest = manifest_of(bench)
    assert manifest["agent"]["name"] == "oracle"
    tasks = {task["name"]: task for task in manifest["tasks"]}
    assert tasks["calm"]["directory"] == "instances.jsonl"
    assert tasks["calm"]["digest"] != tasks["hungry"]["digest"]
    assert any("96 MiB from infra_default_memory" in note for note in tasks["calm"]["notes"])
    assert any(note.startswith("graded by swebench 5") for note in tasks["calm"]["notes"])


def test_a_study_goes_on_unless_predictions_or_instances_changed(
    run: Callable[..., pytest.RunResult], bench: Bench, repository: Repository, image: str
) -> None:
    row, right = repository.row(image), repository.patch("tally.py", FIXED)
    name = row["instance_id"]
    options = (write_predictions(bench, {name: right}), "--infra-study=mine", "-n0")
    run([row], *options)
    result = run([row], *options, "--infra-resume", "--infra-samples=2")
    assert result.ret == 0
    records = bench.records(bench.path / "mine")
    assert [(item["sample"], item["outcome"]) for item in records] == [(1, "passed"), (2, "passed")]
    write_predictions(bench, {name: right + "\n"})
    result = run([row], *options, "--infra-resume", "--infra-samples=3")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --infra-resume: *mine was made otherwise (agent: *"])
    write_predictions(bench, {name: right})
    changed = {**row, "problem_statement": "Otherwise."}
    result = run([changed], *options, "--infra-resume", "--infra-samples=3")
    result.stderr.fnmatch_lines([f"*was made otherwise (content of {name})*"])
    assert len(bench.records(bench.path / "mine")) == 2


@pytest.mark.parametrize(
    ("agent", "outcome"),
    [
        ("sed -i 's/numbers.1:./numbers/' tally.py", "passed"),
        ("sed -i 's/numbers.1:./numbers/' tally.py && git commit -qam 'Count all'", "passed"),
        # The tests of the data set count, whatever stands in theirs.
        ("echo 'def test_first(): pass' >tests/test_tally.py", "failed"),
    ],
    ids=["edits", "commits", "edits the tests"],
)
def test_what_an_agent_leaves_in_the_repository_is_verified(
    run: Callable[..., pytest.RunResult],
    bench: Bench,
    repository: Repository,
    image: str,
    agent: str,
    outcome: str,
) -> None:
    told = "grep -q 'forgets the first number' \"$INFRA_INSTRUCTION\" || exit 9; "
    identity = "git config --global user.name A && git config --global user.email a@example.org && "
    command = f"--infra-agent={told}{identity}{agent}"
    run([repository.row(image)], command, "-n0")
    (record,) = bench.records()
    assert record["outcome"] == outcome
    (work,) = (phase for phase in record["phases"] if phase["phase"] == "agent")
    assert work["exit_code"] == 0
    assert manifest_of(bench)["agent"]["command"] == command.removeprefix("--infra-agent=")


def test_what_is_left_out_is_said(
    run: Callable[..., pytest.RunResult],
    bench: Bench,
    repository: Repository,
    docker_backend: Any,  # a dry run shows what the engine would enforce
) -> None:
    rows = [repository.row("none", instance_id=name) for name in ("one", "two", "three")]
    options = (write_predictions(bench, {"two": "", "four": ""}), "--infra-dry-run")
    result = run(rows, *options)
    result.stdout.fnmatch_lines(
        [
            "*predictions.json: 2 instance(s) have no prediction and are left out",
            "*predictions.json: 1 prediction(s) are for no instance of the data set",
            "  two 1x s1",
        ]
    )
    assert "  one 1x s1" not in result.outlines


def test_an_instance_can_be_selected_by_its_id(
    run: Callable[..., pytest.RunResult], repository: Repository
) -> None:
    rows = [repository.row("none", instance_id=name) for name in ("one", "two")]
    result = run(rows, "instances.jsonl::two", "--collect-only", "-q")
    assert result.outlines[0] == "instances.jsonl::two::1x-s1"
    assert not any("::one::" in line for line in result.outlines)


def test_instances_are_left_out_by_name(
    run: Callable[..., pytest.RunResult], repository: Repository
) -> None:
    rows = [repository.row("none", instance_id=name) for name in ("one", "two", "three")]
    result = run(rows, "--infra-exclude=t*", "--collect-only", "-q")
    assert [line for line in result.outlines if "::" in line] == ["instances.jsonl::one::1x-s1"]


def test_instances_that_are_not_selected_are_neither_planned_nor_refused(
    run: Callable[..., pytest.RunResult], repository: Repository, docker_backend: Any
) -> None:
    rows = [repository.row("none", instance_id=name) for name in ("one", "two")]
    options = ("--infra-cpu-budget=0.001", "--infra-default-cpus=1", "--infra-dry-run")
    result = run(rows, "-k", "neither", *options)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result = run(rows, "-k", "two", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "task one" not in result.stderr.str()
    result.stderr.fnmatch_lines(["*task two: CPU guarantee 1 cpu never fits*"])


def test_the_data_set_alone_runs_unless_more_is_named(
    run: Callable[..., pytest.RunResult], bench: Bench, repository: Repository
) -> None:
    bench.pytester.makepyfile(test_other="def test_yes(): pass")
    bench.task("calm")
    rows = [repository.row("none", instance_id="one")]
    alone = run(rows, "--collect-only", "-q")
    assert [line for line in alone.outlines if "::" in line] == ["instances.jsonl::one::1x-s1"]
    both = run(rows, "bench", "--collect-only", "-q")
    assert sorted(line for line in both.outlines if "::" in line) == [
        "bench/calm/task.toml::1x-s1",
        "instances.jsonl::one::1x-s1",
    ]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            ("--infra-predictions=gold", "--infra-multipliers=1"),
            "--infra-predictions: this goes with --infra-swebench, which names the data set",
        ),
        (
            ("--infra-swebench=i.jsonl", "--infra-predictions=gold", "--infra-agent=nop"),
            "--infra-agent cannot be combined with --infra-predictions: *; drop one",
        ),
        (
            ("--infra-swebench=i.jsonl",),
            "i.jsonl: SWE-bench declares no memory, *infra_default_memory",
        ),
        (
            ("--infra-swebench=none.jsonl", f"{MEMORY}=1G"),
            "none.jsonl: cannot be read: *No such file*",
        ),
        (
            ("--infra-swebench=i.jsonl", f"{MEMORY}=1G", "--infra-swebench-image={repo}"),
            "--infra-swebench-image={repo}: the only fields are {instance_id} and {docker_id}; *",
        ),
        (
            ("--infra-swebench=i.jsonl", f"{MEMORY}=1G", "--infra-predictions=p.json"),
            "p.json: has no prediction for any instance of --infra-swebench",
        ),
        (
            ("--infra-swebench=i.jsonl", f"{MEMORY}=1G", "--infra-backend=local"),
            "--infra-swebench: instances are container images, *; use --infra-backend=docker",
        ),
    ],
)
@pytest.mark.usefixtures("local_backend")
def test_options_that_cannot_be_used_are_one_line(
    pytester: pytest.Pytester, repository: Repository, options: tuple[str, ...], line: str
) -> None:
    (pytester.path / "i.jsonl").write_text(json.dumps(repository.row("none")))
    (pytester.path / "p.json").write_text('[{"instance_id": "x", "model_patch": ""}]')
    result = pytester.runpytest_subprocess(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {line.replace('[', '[[]')}"])
    assert not Path(pytester.path, ".infranoise").exists()
