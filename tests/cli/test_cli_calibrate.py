"""`infranoise calibrate` as a user types it, on studies that were made up."""

import json
import tomllib

import pytest
from calibrated import AGENT, make_study, make_task, trials

from pytest_infranoise.model.outcome import Cause, Outcome

MANY = [100.0 + number % 10 for number in range(36)]


@pytest.fixture
def tasks(tmp_path):
    return [make_task(tmp_path / "tasks", name) for name in ("spike", "calm")]


@pytest.fixture
def study(tmp_path, tasks):
    records = trials("spike", MANY) + trials("calm", [5.0] * 36)
    return make_study(tmp_path / "study", records, tasks=tasks)


def band_of(task):
    return tomllib.loads((task / "task.toml").read_text()).get("metadata", {}).get("infranoise")


def row(out, task):
    return next(line for line in out.splitlines() if line.startswith(f"{task} ")).split("  ")


def cells(out, task):
    return [cell.strip() for cell in row(out, task) if cell.strip()]


def test_values_come_from_peaks_above_the_kills(study, tasks, command):
    code, out, err = command("calibrate", study)
    assert (code, err) == (0, "")
    assert cells(out, "spike") == [
        "spike", "108", "109 MiB", "36 at 64 MiB", "64 MiB", "128 MiB", "128 MiB", "5.0%", "shown",
    ]  # fmt: skip
    assert cells(out, "calm")[4:] == [
        "64 MiB",
        "64 MiB",
        "64 MiB",
        "2.7%",
        "shown, less was needed",
    ]
    assert "one agent only" in out
    assert "nothing written; --write puts these into the task files" in out
    assert 'spike/task.toml: memory_guarantee = "128M", memory_limit = "128M"' in out
    assert band_of(tasks[0]) is None


def test_the_expected_rate_has_an_interval(study, command):
    _, out, _ = command("calibrate", study)
    # 1/73 (72 trials judge 128 MiB) and 1/109, on average over both tasks
    assert "infra errors expected at these values: at most 1.1% (95% interval 0.0 to " in out
    assert "1.1% kills and 0.0% of other causes" in out


def test_write_changes_the_files_and_says_so(study, tasks, command):
    before = (tasks[0] / "task.toml").read_text()
    code, out, _ = command("calibrate", study, "--write")
    assert code == 0
    assert out.splitlines()[-1] == "written: 2 task files"
    assert (tasks[0] / "task.toml").read_text() == before + (
        '\n[metadata.infranoise]\nmemory_guarantee = "128M"\nmemory_limit = "128M"\n'
    )
    code, out, _ = command("calibrate", study, "--write")
    assert (code, out.count("has these values already")) == (0, 2)


def test_lower_values_are_proposed_on_request(study, tasks, command):
    command("calibrate", study, "--write", "--lower")
    assert band_of(tasks[1]) == {"memory_guarantee": "16M", "memory_limit": "16M"}


def test_json_says_the_same(study, command):
    code, out, _ = command("calibrate", study, "--format", "json")
    data = json.loads(out)
    assert code == 0
    spike = data["tasks"][0]
    assert (spike["task"], spike["status"], spike["memory_limit_bytes"]) == (
        "spike", "shown", 128 * 1024**2,
    )  # fmt: skip
    assert spike["agents"][0]["killed"] == [{"limit_bytes": 64 * 1024**2, "trials": 36}]
    assert spike["agents"][0]["evidence"]["n"] == 72
    assert data["one_agent_only"] is True
    assert data["files"]["written"] is False
    assert data["recommendations"][0]["status"] == "provisional"


def test_a_censored_task_is_at_least_so_much(tmp_path, tasks, command):
    records = trials("spike", [300.0] * 36, ("1x", "3x")) + trials("calm", [5.0] * 36)
    study = make_study(tmp_path / "study", records, tasks=tasks)
    code, out, _ = command("calibrate", study, "--write")
    assert code == 1
    assert "more than 192 MiB: too few trials above it" in out
    assert "spike: left alone: its values are not known" in out
    assert band_of(tasks[0]) is None
    assert band_of(tasks[1])["memory_limit"] == "64M"
    assert "in 1 of 2 tasks" in out


def test_few_trials_are_unknown(tmp_path, tasks, command):
    records = trials("spike", [70.0], ("3x",)) + trials("calm", [5.0], ("3x",))
    study = make_study(tmp_path / "study", records, tasks=tasks)
    code, out, _ = command("calibrate", study)
    assert code == 1
    assert out.count("unknown: 1 trial of an agent are too few") == 2
    assert "infra error rate at these values: unknown" in out


def test_provisional_values_are_written_on_request_only(tmp_path, tasks, command):
    records = trials("spike", MANY[:6]) + trials("calm", [5.0] * 36)
    study = make_study(tmp_path / "study", records, tasks=tasks)
    code, out, _ = command("calibrate", study, "--write")
    assert code == 1
    assert "its values are provisional; --accept-provisional takes them" in out
    assert band_of(tasks[0]) is None
    assert command("calibrate", study, "--write", "--accept-provisional")[0] == 0
    assert band_of(tasks[0])["memory_limit"] == "128M"


def test_a_value_holds_for_every_agent(tmp_path, tasks, command):
    first = make_study(tmp_path / "a", trials("spike", MANY) + trials("calm", [5.0] * 36),
                       tasks=tasks)  # fmt: skip
    second = make_study(
        tmp_path / "b",
        trials("spike", [170.0] * 36) + trials("calm", [5.0] * 36),
        tasks=tasks,
        agent={"name": "agent-b"},
    )
    code, out, _ = command("calibrate", first, second, "-v")
    assert code == 0
    assert cells(out, "spike")[5:8] == ["192 MiB", "192 MiB", "5.0%"]
    assert "over 2 agents: each value is the largest that one of them needs" in out
    assert "one agent only" not in out
    assert 'agent "agent-b": 216 trials, tasks 2 shown' in out
    # together with two studies of one agent, samples add up
    again = make_study(tmp_path / "c", trials("spike", MANY) + trials("calm", [5.0] * 36),
                       tasks=tasks)  # fmt: skip
    _, out, _ = command("calibrate", first, again)
    assert cells(out, "spike")[1] == "216"


def test_what_one_agent_needs_may_be_unknown(tmp_path, tasks, command):
    first = make_study(tmp_path / "a", trials("spike", MANY), tasks=tasks[:1])
    second = make_study(
        tmp_path / "b", trials("spike", [300.0] * 9, ("1x", "3x")), tasks=tasks[:1],
        agent={"name": "agent-b"},
    )  # fmt: skip
    code, out, _ = command("calibrate", first, second)
    assert code == 1
    assert "more than 192 MiB" in out


def test_the_reference_solution_must_fit_too(tmp_path, tasks, command):
    agent = make_study(tmp_path / "a", trials("spike", MANY), tasks=tasks[:1])
    oracle = make_study(
        tmp_path / "o", trials("spike", [400.0], ("uncapped",)), tasks=tasks[:1],
        agent={"name": "oracle"},
    )  # fmt: skip
    code, out, _ = command("calibrate", agent, oracle)
    assert code == 0
    assert cells(out, "spike")[6:] == ["512 MiB", "5.0%", "shown, for the reference solution"]
    assert "one agent only" in out


@pytest.mark.parametrize(
    ("facts", "named"),
    [
        ({"agent": {"name": "oracle"}}, "only reference solutions ran"),
        ({"agent": {"name": "nop"}}, "run one with --infra-agent"),
        ({"backend": {"backend": "local", "enforcement": "watchdog"}}, "measured by the watchdog"),
        ({"enforcement": {"lenient_seconds": 5.0}}, "tolerated overruns"),
        ({"enforcement": {"lenient_seconds": None, "swap": "twice"}}, "swap beyond the limit"),
        ({"source": {"kind": "counts", "file": "x.csv"}}, "imported outcomes hold no peaks"),
    ],
)
def test_what_says_nothing_of_an_agent_is_refused(tmp_path, tasks, command, facts, named):
    study = make_study(tmp_path / "study", trials("spike", MANY), tasks=tasks, **facts)
    code, out, err = command("calibrate", study)
    assert (code, out) == (4, "")
    assert err.count("\n") == 1
    assert named in err


def test_other_tasks_of_one_name_are_refused(tmp_path, tasks, command):
    first = make_study(tmp_path / "a", trials("spike", MANY), tasks=tasks)
    (tasks[0] / "instruction.md").write_text("Do something else.\n")
    second = make_study(tmp_path / "b", trials("spike", MANY), tasks=tasks)
    code, _, err = command("calibrate", first, second)
    assert code == 4
    assert "task spike is another one there" in err


def test_a_task_that_changed_is_left_alone(study, tasks, command, tmp_path):
    (tasks[0] / "instruction.md").write_text("Do something else.\n")
    code, out, _ = command("calibrate", study, "--write")
    assert code == 1
    assert "the task changed since it ran" in out
    assert band_of(tasks[0]) is None
    assert command("calibrate", study, "--write", "--accept-changed")[0] == 0
    assert band_of(tasks[0])["memory_limit"] == "128M"


def test_tasks_are_found_elsewhere(study, tasks, command, tmp_path):
    moved = tmp_path / "elsewhere" / "deeper"
    moved.mkdir(parents=True)
    tasks[0].rename(moved / "spike")
    code, out, _ = command("calibrate", study, "--write")
    assert code == 1
    assert "not found; --tasks names the folder of tasks" in out
    assert command("calibrate", study, "--write", "--tasks", moved)[0] == 1  # calm is not there
    assert band_of(moved / "spike")["memory_limit"] == "128M"


def test_names_are_no_patterns(tmp_path, command):
    name = "a[1]*"
    task = make_task(tmp_path / "tasks", name)
    make_task(tmp_path / "tasks", "a1x")
    study = make_study(tmp_path / "study", trials(name, MANY), tasks=[task])
    moved = tmp_path / "elsewhere" / "deeper"
    moved.mkdir(parents=True)
    task.rename(moved / name)
    assert command("calibrate", study, "--write", "--tasks", tmp_path / "elsewhere")[0] == 0
    assert band_of(moved / name)["memory_guarantee"]
    assert band_of(tmp_path / "tasks" / "a1x") is None


def test_a_marked_test_is_named_with_its_values(tmp_path, command):
    study = make_study(tmp_path / "study", trials("test_x.py::test_big", MANY))
    code, out, _ = command("calibrate", study, "--write")
    assert code == 0
    assert "test_x.py::test_big: left alone: a marked test has no task file" in out
    assert "memory_limit = 128M" in out


def test_other_infra_errors_are_expected_too(tmp_path, tasks, command):
    broken = {"outcome": Outcome.INFRA_ERROR, "cause": Cause.ENGINE, "oom_kills": None}
    records = trials("calm", [5.0] * 36, ("1x",)) + trials("calm", [5.0] * 12, ("3x",), **broken)
    study = make_study(tmp_path / "study", records, tasks=tasks[1:])
    _, out, _ = command("calibrate", study)
    assert cells(out, "calm")[1] == "36"
    assert "25.0% of other causes" in out


def test_attempts_that_the_model_s_provider_refused_tell_nothing(tmp_path, tasks, command):
    refused = {"outcome": Outcome.INFRA_ERROR, "cause": Cause.MODEL_API}
    records = trials("calm", [1.0] * 36, ("uncapped",), **refused)
    records += trials("calm", [70.0] * 36, ("uncapped",), attempt=2)
    study = make_study(tmp_path / "study", records, tasks=tasks[1:])
    _, out, _ = command("calibrate", study)
    assert cells(out, "calm")[1:3] == ["36", "70 MiB"]
    assert "0.0% of other causes" in out


def test_kills_by_strangers_leave_the_need_unknown(tmp_path, tasks, command):
    killed = {"outcome": Outcome.INFRA_ERROR, "cause": Cause.HOST_MEMORY}
    records = trials("calm", [5.0] * 36) + trials("calm", [5.0], ("uncapped",), **killed)
    records[-1] = type(records[-1])(**{**_fields(records[-1]), "sample": 99})
    study = make_study(tmp_path / "study", records, tasks=tasks[1:])
    code, out, _ = command("calibrate", study)
    assert code == 1
    assert cells(out, "calm")[3] == "1 from outside"
    assert "killed from outside, or by the host's memory" in out


def test_a_reference_solution_that_was_killed_needs_more(tmp_path, tasks, command):
    agent = make_study(tmp_path / "a", trials("calm", [5.0] * 36), tasks=tasks[1:])
    oracle = make_study(
        tmp_path / "o", trials("calm", [80.0], ("1x",)), tasks=tasks[1:], agent={"name": "oracle"}
    )
    _, out, _ = command("calibrate", agent, oracle)
    assert cells(out, "calm")[6:] == ["96 MiB", "2.7%", "shown, for the reference solution"]


def _fields(record):
    return {name: getattr(record, name) for name in type(record).__slots__}


def test_cpu_is_raised_only_where_it_was_too_little(tmp_path, tasks, command):
    slow = {"outcome": Outcome.TIMEOUT, "cpu_periods": 100, "throttled_periods": 90}
    records = trials("calm", [5.0] * 36, ("1x",), cpu_limit_cores=0.05, **slow)
    records += trials("calm", [5.0] * 36, ("3x",), cpu_limit_cores=0.15)
    study = make_study(tmp_path / "study", records, tasks=tasks[1:], cpu=0.05)
    _, out, _ = command("calibrate", study, "--write")
    assert "CPU limit 0.15 cpu (shown)" in out
    assert band_of(tasks[1])["cpus_limit"] == 0.15


def test_a_growing_study_is_looked_at(tmp_path, tasks, command):
    study = make_study(tmp_path / "study", trials("spike", MANY), tasks=tasks[:1], ended_at=None)
    assert command("calibrate", study)[0] == 0
    assert len((study / "looks.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["calibrate"], "STUDY"),
        (["calibrate", "/nowhere"], "/nowhere"),
        (["calibrate", "x", "--kill-rate", "10"], "--kill-rate"),
        (["calibrate", "x", "--kill-rate", "60%"], "kill rate: 0.6 must lie between"),
        (["calibrate", "x", "--confidence", "40%"], "confidence: 0.4 must lie between"),
    ],
)
def test_a_mistake_is_one_line(arguments, named, command):
    code, out, err = command(*arguments)
    assert (code, out) == (4, "")
    assert err.count("\n") == 1
    assert named in err


def test_hostile_names_stay_text(tmp_path, command):
    study = make_study(tmp_path / "study", trials("a\x1b[31mb", MANY), agent={"name": "x\ny"})
    _, out, _ = command("calibrate", study)
    assert "\x1b" not in out
    assert AGENT["name"] not in out
