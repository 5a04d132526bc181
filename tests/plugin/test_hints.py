"""What newcomers are told: folders that did not run, agents that did not start, partial studies."""

import re

import pytest

from pytest_infranoise.plugin.hints import DEADLINE_NOTE, agent_lines

SWEEP = ("--infra-multipliers=1,3", "--infra-exit=study")


@pytest.fixture
def tasks(plain_bench):
    plain_bench.task("one")
    plain_bench.task("two")
    return plain_bench


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bench"], "2 task folders in bench did not run"),
        (["bench/one"], "1 task folder in bench/one did not run"),
        (["bench/one/task.toml"], "1 task folder in bench/one/task.toml did not run"),
        (["."], "2 task folders in . did not run"),
        (["bench", "-n", "1"], "2 task folders in bench did not run"),
    ],
)
def test_task_folders_without_a_sweep_option_are_named_with_what_to_type(tasks, arguments, words):
    result = tasks.pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)
    assert result.ret == (4 if arguments[0].endswith(".toml") else 5)
    (line,) = [line for line in result.outlines if "did not run" in line]
    assert line.startswith(f"infranoise: {words}, since no sweep option was given; type: pytest ")
    command = line.partition("type: pytest ")[2].split()
    dry = tasks.pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", *command, "--collect-only", "-q"
    )
    assert dry.ret == 0
    assert "task.toml::3x-s1" in dry.stdout.str()


def test_nothing_is_said_where_there_is_no_task(pytester):
    pytester.makepyfile(test_none="")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.ret == 5
    assert "infranoise:" not in result.stdout.str()


def test_nothing_is_said_where_tests_ran(tasks):
    (tasks.path / "test_it.py").write_text("def test_it(): pass\n")
    result = tasks.pytester.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.ret == 0
    assert "did not run" not in result.stdout.str()


def phases(*codes):
    return [
        {"phases": [{"phase": "setup", "exit_code": 127}, {"phase": "agent", "exit_code": code}]}
        for code in codes
    ]


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        ([127] * 10, "was not found in the sandbox in 10 of 10 trial(s) (exit code 127)"),
        ([126] * 9 + [0], "could not be run in the sandbox in 9 of 10 trial(s) (exit code 126)"),
        ([127] * 7 + [0] * 3, None),
        ([1, 0, None], None),
        ([], None),
    ],
)
def test_an_agent_that_does_not_start_anywhere_is_one_line(codes, words):
    lines = list(agent_lines(phases(*codes), "run-me"))
    assert [words in line and line.endswith("agent run-me") for line in lines] == (
        [] if words is None else [True]
    )


def test_an_agent_that_is_not_in_the_image(local_bench):
    local_bench.task("one")
    result = local_bench.run(*SWEEP, "--infra-agent=no-such-agent --fast")
    result.stdout.re_match_lines(
        [r"the agent's command was not found in the sandbox in 2 of 2 trial\(s\) \(exit code 127\)"]
    )


@pytest.mark.parametrize(
    ("options", "unselected"),
    [((), 0), (("-k", "3x"), 2), (("--deselect=bench/one/task.toml::3x-s1",), 1)],
)
def test_a_part_of_a_study_says_so(options, unselected, local_bench):
    local_bench.task("one")
    local_bench.task("two")
    text = local_bench.run(*SWEEP, *options).stdout.str()
    found = re.findall(r"(\d+) trial\(s\) of these tasks were not selected", text)
    assert found == ([str(unselected)] if unselected else [])


def test_what_is_on_record_counts_as_selected(local_bench):
    local_bench.task("one")
    local_bench.task("two")
    half = local_bench.run(*SWEEP, "--infra-study=study", "-k", "one")
    assert "2 trial(s) of these tasks were not selected" in half.stdout.str()
    rest = local_bench.run("--infra-study=study", "--infra-resume")
    assert "were not selected" not in rest.stdout.str()


def test_a_study_is_not_written_among_other_files(tasks):
    (tasks.path / "mine").mkdir()
    (tasks.path / "mine" / "thesis.txt").write_text("years of work")
    result = tasks.run("--infra-multipliers=1", "--infra-study=mine")
    assert result.ret == 4
    result.stderr.re_match_lines(
        [r"ERROR: --infra-study: .*mine holds thesis\.txt and no study; name a folder that is"]
    )
    assert [item.name for item in (tasks.path / "mine").iterdir()] == ["thesis.txt"]


def test_a_dry_run_shows_deadlines(local_bench):
    local_bench.task("one", agent_timeout=90)
    result = local_bench.run(
        "--infra-memory-multipliers=1", "--infra-timeout-multipliers=1,2", "--infra-dry-run"
    )
    rows = [line for line in result.outlines if line.startswith(("task ", "one "))]
    assert "agent deadline" in rows[0]
    assert ["90 s" in rows[1], "180 s" in rows[2]] == [True, True]


def test_a_sweep_over_a_folder_without_tasks_says_so(plain_bench):
    (plain_bench.path / "empty").mkdir()
    result = plain_bench.pytester.runpytest_inprocess("empty", "--infra-multipliers=1,3")
    assert result.ret == 5
    assert "infranoise: no task folder (task.toml or task.yaml) below empty" in result.outlines


def test_task_folders_beside_a_marked_test_are_not_passed_over_silently(tasks):
    (tasks.path / "bench" / "test_it.py").write_text(
        "import pytest\n\n@pytest.mark.infra(memory='2Q')\ndef test_it(infra_sandbox): pass\n"
    )
    result = tasks.pytester.runpytest_subprocess("-p", "no:cacheprovider", "bench")
    assert result.ret == 1
    assert sum("2 task folders in bench did not run" in line for line in result.outlines) == 1


def test_a_dry_run_says_once_what_its_design_can_detect(local_bench):
    local_bench.task("one")
    local_bench.task("two")
    result = local_bench.run("--infra-multipliers=1,3", "--infra-agent=true", "--infra-dry-run")
    assert sum("points" in line for line in result.outlines) == 1


def test_a_marked_test_that_does_not_mind_its_deadline(local_bench):
    local_bench.pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.infra(memory="32M", timeout=1)
        def test_careless(infra_sandbox):
            infra_sandbox.exec("sleep 30")
            infra_sandbox.exec("true")

        @pytest.mark.infra(memory="32M", timeout=1)
        def test_careful(infra_sandbox):
            assert not infra_sandbox.exec("sleep 30").timed_out
        """
    )
    result = local_bench.pytester.runpytest_subprocess(
        "--infra-backend=local", "-p", "no:cacheprovider"
    )
    assert (
        "in 1 passed trial(s) a command was ended by its deadline, and the test still "
        "passed (assert exit_code or timed_out): test_it.py::test_careless"
    ) in result.outlines
    notes = {record["task"]: record["notes"] for record in local_bench.records()}
    words = f"{DEADLINE_NOTE}: 1 command(s)"
    assert words in notes["test_it.py::test_careless"]
    assert words not in notes["test_it.py::test_careful"]
