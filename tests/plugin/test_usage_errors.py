"""Bad input is one clear line before anything starts."""

import pytest
from bench import Bench

from pytest_infranoise.plugin.options import OPTIONS


def refused(bench: Bench, *args: str, pattern: str) -> None:
    result = bench.ask(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {pattern}"])
    assert "Traceback" not in result.stderr.str()
    assert "infrastructure noise" not in result.stdout.str()
    assert not bench.studies()


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        (
            ["--infra-multipliers=1,3,uncaped"],
            "--infra-multipliers: 'uncaped' is not a multiplier*",
        ),
        (["--infra-multipliers=1,,3"], "--infra-multipliers: '' is not a multiplier*"),
        (["--infra-multipliers=1,1.0"], "--infra-multipliers: 1x is listed twice*"),
        (["--infra-multipliers=0"], "--infra-multipliers: '0' is not a multiplier*"),
        (
            ["--infra-multipliers=1", "--infra-memory-multipliers=2"],
            "--infra-multipliers scales memory and CPU together*--infra-memory-multipliers*",
        ),
        (["--infra-timeout-multipliers=uncapped"], "--infra-timeout-multipliers: *uncapped*"),
        (["--infra-samples=0"], "--infra-samples: 0 is less than 1"),
        (["--infra-samples=many"], "--infra-samples: 'many' is not a whole number"),
        (["--infra-samples=1", "--infra-order=random"], "--infra-order: 'random' is not one of *"),
        (["--infra-samples=1", "--infra-memory-budget=2Q"], "--infra-memory-budget: '2Q' is not*"),
        (["--infra-samples=1", "--infra-cpu-budget=-1"], "--infra-cpu-budget: '-1' is not*"),
        (["--infra-samples=1", "--infra-agent="], "--infra-agent: write oracle, nop, a command*"),
        (
            ["--infra-samples=1", "--infra-agent=x", "--infra-agent-files=nowhere"],
            "--infra-agent-files=nowhere: write HOST:SANDBOX*",
        ),
        (
            ["--infra-samples=1", "--infra-agent-env=NOT_SET_HERE"],
            "--infra-agent-env=NOT_SET_HERE: this variable is not set here",
        ),
    ],
)
def test_options(plain_bench: Bench, options: list[str], pattern: str, workers: str) -> None:
    plain_bench.task("calm")
    refused(plain_bench, *options, workers, pattern=pattern)


def test_ini_values_name_their_file(plain_bench: Bench) -> None:
    plain_bench.task("calm")
    plain_bench.pytester.makeini("[pytest]\ninfra_multipliers = 1,threefold\n")
    refused(plain_bench, pattern="*tox.ini: infra_multipliers: 'threefold' is not a multiplier*")


@pytest.mark.parametrize(
    ("memory", "pattern"),
    [
        ("2Q", "*calm/task.toml: *memory*2Q*"),
        ("", "*calm/task.toml: *memory*infra_default_memory*"),
    ],
)
def test_task_memory(plain_bench: Bench, memory: str, pattern: str) -> None:
    plain_bench.task("calm", memory=memory)
    refused(plain_bench, "--infra-multipliers=1", pattern=pattern)


def test_every_broken_task_is_named(plain_bench: Bench) -> None:
    for name in ("one", "two"):
        plain_bench.task(name, memory="2Q")
    result = plain_bench.ask("--infra-multipliers=1")
    result.stderr.fnmatch_lines(["ERROR: *one/task.toml*", "*two/task.toml*"])


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
@pytest.mark.parametrize("backend", ["auto", "docker"])
def test_docker_host_that_does_not_answer(
    plain_bench: Bench, monkeypatch: pytest.MonkeyPatch, backend: str, workers: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    plain_bench.engine = backend
    plain_bench.task("calm")
    refused(plain_bench, "--infra-multipliers=1", workers, pattern="*unix:///nowhere/docker.sock*")


def test_the_oracle_needs_a_solution(plain_bench: Bench) -> None:
    directory = plain_bench.task("calm")
    (directory / "solution" / "solve.sh").unlink()
    refused(plain_bench, "--infra-multipliers=1", pattern="*calm*solve.sh*")


def test_threshold_beyond_the_host(one_bench: Bench) -> None:
    one_bench.task("calm", memory="2G")
    pattern = "task calm, parameter set 10000x: kill threshold * --infra-clamp"
    refused(one_bench, "--infra-multipliers=1,10000", pattern=pattern)


def test_equal_sets(one_bench: Bench) -> None:
    one_bench.task("calm", environment="cpus = 0.5")
    pattern = "parameter sets mem1x-cpu1000x and mem1x-cpu2000x are the same*--infra-clamp"
    refused(one_bench, "--infra-cpu-multipliers=1,1000,2000", pattern=pattern)


def test_guarantee_that_never_fits(one_bench: Bench) -> None:
    one_bench.task("calm", memory="64M")
    pattern = "task calm: guarantee 64 MiB never fits the memory budget of 32 MiB*"
    refused(one_bench, "--infra-multipliers=1", "--infra-memory-budget=32M", pattern=pattern)


def test_a_study_folder_with_records_is_refused(one_bench: Bench) -> None:
    one_bench.task("calm")
    assert one_bench.run("--infra-multipliers=1", "-n0", "--infra-study=mine").ret == 0
    assert (one_bench.path / "mine" / "trials.jsonl").stat().st_size
    refused(
        one_bench,
        "--infra-multipliers=1",
        "--infra-study=mine",
        pattern="--infra-study: *mine already holds the records of a study*",
    )


def test_every_option_has_an_ini_twin(pytester: pytest.Pytester) -> None:
    text = pytester.runpytest_inprocess("--help").stdout.str()
    for option in OPTIONS:
        assert f"{option.flag}" in text
        assert f"{option.dest} (" in text


def test_a_study_folder_that_cannot_be_written(one_bench: Bench) -> None:
    one_bench.task("calm")
    (one_bench.path / "file").write_text("")
    refused(
        one_bench,
        "--infra-multipliers=1",
        "--infra-study=file/mine",
        pattern="--infra-study: *file/mine*",
    )


def test_a_run_without_any_trial_leaves_no_study(one_bench: Bench) -> None:
    one_bench.task("calm")
    result = one_bench.ask("--infra-multipliers=1", "-k", "nothing")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert not one_bench.studies()


AGENT = "--infra-agent=true"
STEP = "--infra-agent-install=echo"


@pytest.mark.parametrize("what", ["--infra-dry-run", "--collect-only"])
def test_an_install_step_that_nobody_needs_without_a_run(plain_bench: Bench, what: str) -> None:
    plain_bench.task("calm")
    pattern = "--infra-agent-install: the oracle agent needs no installation"
    refused(plain_bench, "--infra-multipliers=1,3", STEP, what, pattern=pattern)


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ([AGENT, STEP], "--infra-agent-install: the local backend has no images*"),
        (
            [AGENT, "--infra-agent-install=./nofile.sh"],
            "--infra-agent-install: there is no script ./nofile.sh in *; * write sh ./nofile.sh",
        ),
        (["--infra-study=/proc/nope"], "--infra-study: /proc/nope cannot be written: *"),
    ],
)
def test_a_dry_run_refuses_what_the_run_would(
    local_bench: Bench, options: list[str], pattern: str
) -> None:
    local_bench.task("calm")
    refused(local_bench, "--infra-multipliers=1", "--infra-dry-run", *options, pattern=pattern)


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_dry_run_of_marked_tests_names_those_that_cannot_be_used(
    local_bench: Bench, workers: str
) -> None:
    body = "def test_{0}(infra_sandbox): raise SystemExit('it ran')\n"
    mark = "@pytest.mark.infra(memory='{0}', timeout=2)\n"
    text = mark.format("2Q") + body.format("bad") + mark.format("32M") + body.format("good")
    local_bench.pytester.makepyfile(test_suite=f"import pytest\n\n{text}")
    result = local_bench.pytester.runpytest_inprocess(
        "--infra-backend=local",
        "-p",
        "no:cacheprovider",
        "--infra-dry-run",
        workers,
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["test_suite.py::test_good  1x *", "nothing was run"])
    result.stderr.fnmatch_lines(["ERROR: test_suite.py::test_bad: infra marker: memory: '2Q' *"])
    assert "it ran" not in result.stdout.str()


@pytest.mark.parametrize("option", [item.dest for item in OPTIONS if item.is_flag])
def test_flags_of_an_ini_file_are_true_or_false(
    pytester: pytest.Pytester, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ini = pytester.makeini(f"[pytest]\n{option} = maybe\n")
    assert pytester.inline_run().ret == pytest.ExitCode.USAGE_ERROR
    words = f"ERROR: {ini}: {option}: invalid truth value 'maybe'; write true or false\n"
    assert words in capsys.readouterr().err
    ini.unlink()
    toml = pytester.makepyprojecttoml(f"[tool.pytest.ini_options]\n{option} = 'no'\n")
    assert pytester.inline_run().ret == pytest.ExitCode.NO_TESTS_COLLECTED
    toml.write_text(f"[tool.pytest.ini_options]\n{option} = 'perhaps'\n")
    assert pytester.inline_run().ret == pytest.ExitCode.USAGE_ERROR
    assert f"{toml}: {option}: invalid truth value 'perhaps'" in capsys.readouterr().err
