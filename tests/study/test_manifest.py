import json
import shutil
import subprocess
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from pytest_infranoise.admission import Budget
from pytest_infranoise.backends.base import EngineInfo
from pytest_infranoise.design import effective_allocations
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.model.resources import (
    Capacity,
    ResourceSpec,
    crossed_sets,
    joint_sets,
    parse_multipliers,
)
from pytest_infranoise.model.task import ImageSource, PreparedImage, Task
from pytest_infranoise.study import Redactor, StudyFacts, capture_manifest
from pytest_infranoise.study.host import (
    DEPENDENCIES,
    _file_system,
    capture_git,
    capture_host,
    capture_load,
    capture_software,
)
from pytest_infranoise.study.manifest import finish_manifest, to_builtins
from pytest_infranoise.study.store import Manifest
from pytest_infranoise.units import GIB, MIB

SECRET = "sk-live-0123456789"
CAPACITY = Capacity(8 * GIB, 2)


def numbers(text):
    return parse_multipliers(text, where="test")


SETS = joint_sets(numbers("1,1.5,uncapped"))


@pytest.fixture
def task(tmp_path):
    return Task(
        "spike",
        "sha256:0",
        ResourceSpec.declared(96 * MIB, 0.25),
        ImageSource(docker_image="python:3.11"),
        directory=tmp_path / "tasks" / "spike",
        instruction="do it",
        agent_timeout_seconds=60.0,
        environment={"MODE": SECRET},
        solution_environment={"TOKEN": SECRET},
        leftovers="kill",
    )


@pytest.fixture
def make_facts(task):
    def make(sets=SETS, **values):
        values = {
            "study": "2026-12-01T10-22-31Z-5f3a",
            "command_line": ["pytest", "example_tasks", f"--api-key={SECRET}"],
            "seed": 7,
            "order": "interleaved",
            "samples": 5,
            "parameter_sets": sets,
            "tasks": [task],
            "allocations": effective_allocations([task], sets, CAPACITY, clamp=True),
            "engine": EngineInfo("docker", "docker 20.10.24", "id", 1, "hard limit", CAPACITY),
            "agent": {"name": "command", "command": f"run {SECRET}"},
            "budget": Budget(7 * GIB, 2),
            "images": {"spike": PreparedImage("python:3.11", "sha256:1")},
            "passed_variables": ["MY_VARIABLE"],
            **values,
        }
        return StudyFacts(**values)

    return make


@pytest.fixture
def manifest(make_facts):
    return capture_manifest(make_facts(), Redactor({"MY_VARIABLE": SECRET}))


def test_it_is_json_and_the_reader_understands_it(manifest):
    assert json.loads(json.dumps(manifest, allow_nan=False)) == manifest
    read = Manifest(manifest)
    assert read.study == "2026-12-01T10-22-31Z-5f3a"
    assert read.parameter_sets == ("1x", "1.5x", "uncapped")
    assert read.tasks == ("spike",)
    assert (read.baseline, read.samples, read.equal_sets) == ("1x", 5, ())
    assert read.backend["engine"] == "docker 20.10.24"
    assert not read.is_finished


def test_no_secret_is_in_it_and_names_are(manifest):
    text = json.dumps(manifest)
    assert SECRET not in text
    assert manifest["passed_variables"] == ["MY_VARIABLE"]
    assert manifest["tasks"][0]["environment_variables"] == ["MODE", "TOKEN"]
    assert manifest["agent"]["command"] == "run <redacted MY_VARIABLE>"
    assert manifest["command_line"][2] == "--api-key=<redacted>"


def test_limits_stand_for_every_task_and_set(manifest):
    (facts,) = manifest["tasks"]
    assert facts["spec"]["memory_limit_bytes"] == 96 * MIB
    assert facts["image"] == {"reference": "python:3.11", "digest": "sha256:1"}
    assert facts["leftovers"] == "kill"
    assert manifest["image_build"] == "never"
    limits = facts["limits"]
    assert list(limits) == ["1x", "1.5x", "uncapped"]
    assert limits["1.5x"]["requested"]["memory_limit_bytes"] == 144 * MIB
    assert limits["1.5x"]["effective"]["cpu_limit_cores"] == 0.375
    assert limits["uncapped"]["effective"]["memory_limit_bytes"] is None
    assert limits["uncapped"]["agent_timeout_seconds"] == 60.0


def test_requested_and_effective_limits_differ_where_the_engine_bounds_them(make_facts):
    sets = crossed_sets(None, numbers("1,16,32"), None)
    manifest = capture_manifest(make_facts(sets))
    limits = manifest["tasks"][0]["limits"]["mem1x-cpu16x"]
    assert limits["requested"]["cpu_limit_cores"] == 4
    assert limits["effective"]["cpu_limit_cores"] == 2
    assert "clamped" in limits["effective"]["notes"][0]
    assert manifest["equal_sets"] == [["mem1x-cpu16x", "mem1x-cpu32x"]]


def test_multipliers_are_numbers_and_uncapped_is_null(manifest):
    found = {item["id"]: item["memory_multiplier"] for item in manifest["parameter_sets"]}
    assert found == {"1x": 1.0, "1.5x": 1.5, "uncapped": None}


def test_a_task_without_folder_image_or_limits_is_described_all_the_same(make_facts):
    test = Task("test_it", "sha256:2", ResourceSpec.declared(MIB, None), ImageSource())
    facts = make_facts(tasks=[test])
    (found,) = capture_manifest(facts)["tasks"]
    assert (found["directory"], found["image"], found["limits"]) == (None, None, {})
    assert found["leftovers"] == "keep"


def test_folders_below_the_current_one_are_named_from_there(make_facts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert capture_manifest(make_facts())["tasks"][0]["directory"] == "tasks/spike"


def test_times_are_utc_and_the_zone_is_told(manifest):
    started = datetime.fromisoformat(manifest["started_at"])
    assert started.tzinfo == UTC
    assert abs((datetime.now(UTC) - started).total_seconds()) < 60
    offset = datetime.now().astimezone().utcoffset().total_seconds()
    assert manifest["local_timezone"]["utc_offset_seconds"] == offset


def test_the_end_adds_and_changes_nothing_else(manifest):
    ended = finish_manifest(manifest, exit_code=1, outcome=Outcome.PASSED)
    changed = {key for key in ended if ended[key] != manifest.get(key)}
    assert changed == {"ended_at", "sessions", "load_at_end", "exit_code", "outcome"}
    assert ended["outcome"] == "passed"
    assert Manifest(ended).is_finished


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b", "a"}, ["a", "b"]),
        ((1, (2.5, None, True)), [1, [2.5, None, True]]),
        ({Path("a"): Path("b/c")}, {"a": "b/c"}),
        (Outcome.OOM, "oom"),
        (Fraction(3, 2), "3/2"),
    ],
)
def test_builtins(value, expected):
    found = to_builtins(value)
    assert found == expected
    assert type(found) is type(expected)


class TestHost:
    def test_facts_agree_with_the_kernel(self):
        host = capture_host()
        lines = Path("/proc/meminfo").read_text().splitlines()
        figures = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
        assert host["memory_bytes"] == figures["MemTotal"]
        assert host["swap_bytes"] == figures["SwapTotal"]
        assert host["kernel"] == Path("/proc/sys/kernel/osrelease").read_text().strip()
        assert 1 <= host["cpu_usable"] <= host["cpu_count"]

    def test_load(self):
        load = capture_load()
        assert len(load["load_average"]) == 3
        assert 0 < load["memory_available_bytes"] <= capture_host()["memory_bytes"]
        assert load["swap_free_bytes"] <= capture_host()["swap_bytes"]
        assert load["disks"] == {}
        assert set(load["pressure"]) == {"cpu", "memory", "io"}
        for name, found in load["pressure"].items():
            assert (found is not None) == Path(f"/proc/pressure/{name}").exists()
            assert found is None or 0 <= found["some_avg10"] <= 100

    def test_the_disks_that_a_study_may_fill(self, tmp_path):
        ahead = tmp_path / "not" / "there yet"
        disks = capture_load({"study": ahead, "sandboxes": None, "proc": Path("/proc")})["disks"]
        usage = shutil.disk_usage(tmp_path)
        assert disks["study"]["total_bytes"] == usage.total
        assert 0 <= disks["study"]["free_bytes"] <= usage.total
        assert disks["sandboxes"] is None
        assert disks["proc"]["file_system"] == "proc"

    def test_the_file_system_is_that_of_the_innermost_mount(self, monkeypatch):
        mounts = (
            "1 0 8:1 / / rw - ext4 /dev/a rw\n"
            "2 1 8:2 / /data rw shared:1 - xfs /dev/b rw\n"
            "3 2 8:3 / /data/with\\040blank rw - btrfs /dev/c rw\n"
        )
        real = Path.read_text
        monkeypatch.setattr(
            Path,
            "read_text",
            lambda path, *a: mounts if path.name == "mountinfo" else real(path, *a),
        )
        found = [_file_system(Path(name)) for name in ("/x", "/data/x", "/data/with blank/x")]
        assert found == ["ext4", "xfs", "btrfs"]

    def test_software(self):
        software = capture_software()
        assert set(software["dependencies"]) == set(DEPENDENCIES)
        assert software["dependencies"]["pytest"] == pytest.__version__


def test_disks_of_study_and_sandboxes_at_both_ends(make_facts, tmp_path):
    engine = EngineInfo(
        "local", "linux", "id", 1, "hard limit", CAPACITY, details={"base": str(tmp_path)}
    )
    begun = capture_manifest(make_facts(engine=engine, study_folder=tmp_path / "study"))
    for disks in (
        begun["load_at_start"]["disks"],
        finish_manifest(begun, tmp_path)["load_at_end"]["disks"],
    ):
        assert set(disks) == {"study", "sandboxes"}
        assert disks["study"]["free_bytes"] > 0
        assert disks["sandboxes"]["file_system"] == disks["study"]["file_system"]


@pytest.mark.parametrize(
    ("endpoint", "is_here"), [("unix:///run/docker.sock", True), ("tcp://far:2376", False)]
)
def test_the_disk_of_an_engine_on_another_machine_is_unknown(endpoint, is_here, make_facts):
    engine = EngineInfo(
        "docker",
        "docker 29",
        "id",
        2,
        "hard limit",
        CAPACITY,
        details={"endpoint": endpoint, "storage_folder": "/"},
    )
    disks = capture_manifest(make_facts(engine=engine))["load_at_start"]["disks"]
    assert (disks["sandboxes"] is not None) is is_here
    assert disks["study"] is None


def git(folder, *arguments):
    names = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    done = subprocess.run(
        ["git", *names, "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


class TestGit:
    @pytest.fixture
    def repository(self, tmp_path):
        folder = tmp_path / "repo"
        (folder / "tasks" / "a").mkdir(parents=True)
        (folder / "tasks" / "a" / "task.toml").write_text("x")
        (folder / "other").write_text("x")
        git(tmp_path, "init", "-q", str(folder))
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "x")
        return folder

    def test_a_clean_commit(self, repository):
        (repository / "other").write_text("outside the tasks")
        assert capture_git([repository / "tasks" / "a", repository / "tasks"]) == [
            {
                "repository": "repo",
                "commit": git(repository, "rev-parse", "HEAD"),
                "is_dirty": False,
            }
        ]

    @pytest.mark.parametrize("name", ["task.toml", "untracked"])
    def test_a_change_below_the_tasks_is_dirty(self, repository, name):
        (repository / "tasks" / "a" / name).write_text("changed")
        (found,) = capture_git([repository / "tasks" / "a"])
        assert found["is_dirty"] is True

    def test_many_folders_are_one_question(self, repository, monkeypatch):
        """Ten thousand tasks must not start ten thousand programs."""
        asked = []
        monkeypatch.setattr("pytest_infranoise.study.host._git", lambda *words: asked.append(words))
        capture_git([repository / "tasks" / str(number) for number in range(1000)])
        assert len(asked) == 2

    def test_tests_of_an_existing_suite_name_their_folder(self, make_facts, repository):
        (found,) = capture_manifest(make_facts(tasks=[], sources=[repository]))["sources_git"]
        assert found["commit"] == git(repository, "rev-parse", "HEAD")

    def test_a_repository_without_a_commit_is_unknown(self, tmp_path):
        git(tmp_path, "init", "-q", str(tmp_path / "new"))
        (found,) = capture_git([tmp_path / "new"])
        assert (found["commit"], found["is_dirty"]) == (None, False)

    def test_without_a_repository_or_git_nothing_is_known(self, tmp_path, repository, monkeypatch):
        assert capture_git([tmp_path, tmp_path / "missing"]) == []
        monkeypatch.setenv("PATH", str(tmp_path))
        unknown = {"repository": "repo", "commit": None, "is_dirty": None}
        assert capture_git([repository]) == [unknown]

    def test_a_repository_cannot_run_a_program_of_its_own(self, repository, tmp_path):
        hook = tmp_path / "hook"
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        hook.chmod(0o755)
        git(repository, "config", "core.fsmonitor", str(hook))
        capture_git([repository / "tasks"])
        assert not (tmp_path / "ran").exists()
        git(repository, "status")
        assert (tmp_path / "ran").exists()  # it would have run
