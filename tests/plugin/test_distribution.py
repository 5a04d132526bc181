"""The same study, however it is distributed."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, hog, names, wait_until

SWEEP = ("--infra-multipliers=1,4", "--infra-samples=2", "--infra-seed=3")
MODES = {
    "alone": ("-n0",),
    "load": ("-n3",),
    "worksteal": ("-n3", "--dist=worksteal"),
}

# What differs from run to run by nature.
_TIMES = {
    "started_at",
    "wall_seconds",
    "admission_wait_seconds",
    "trials_beside",
    "worker",
    "study",
}


def settled(record: dict[str, Any]) -> tuple[Any, ...]:
    names = ("task", "parameter_set", "sample", "attempt", "block", "position", "seed", "outcome")
    names += ("cause", "score", "oom_kills", "requested", "memory_limit_bytes", "image_digest")
    return tuple(str(record[name]) for name in names)


def test_every_distribution_gives_the_same_records(one_bench: Bench) -> None:
    one_bench.standard()
    found = {}
    for mode, options in MODES.items():
        result = one_bench.run(*SWEEP, *options)
        assert result.ret == 1
        found[mode] = {settled(record) for record in one_bench.records()}
        assert len(found[mode]) == len(one_bench.records()) == 12
        result.stdout.fnmatch_lines(
            ["kills: 2 kills at 1x in 1 task, none at 4x", "=* 4 failed, 6 passed, 2 oom in *"]
        )
    assert found["alone"] == found["load"] == found["worksteal"]


def test_last_failed_reruns_exactly_what_did_not_pass(one_bench: Bench) -> None:
    one_bench.standard()
    for workers in ("-n0", "-n2"):
        arguments = ["bench", "--infra-backend=docker", "--infra-multipliers=1,4", workers]
        one_bench.pytester.runpytest_subprocess(*arguments, "--cache-clear")
        first = one_bench.records()
        one_bench.pytester.runpytest_subprocess(*arguments, "--lf")
        failed = [record for record in first if record["outcome"] != "passed"]
        assert names(one_bench.records()) == names(failed)
        assert len(failed) == 3


def test_admission_never_exceeds_the_budget(one_bench: Bench, docker_backend: Any) -> None:
    for number in range(3):
        one_bench.task(f"task-{number}", "sleep 0.7; touch /app/done")
    most = 0
    done = threading.Event()

    def watch() -> None:
        nonlocal most
        client = docker_backend.client
        while not done.is_set():
            own = [
                item
                for item in client.api.containers(filters={"label": "pytest-infranoise"})
                if "task-" in item["Labels"]["pytest-infranoise.trial"]
            ]
            most = max(most, len(own))
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    result = one_bench.run("--infra-multipliers=1,2", "-n8", "--infra-memory-budget=64M")
    done.set()
    watcher.join()
    assert result.ret == 0
    assert most == 2
    records = one_bench.records()
    assert len(records) == 6
    assert max(record["admission_wait_seconds"] for record in records) > 0.3
    assert {record["trials_beside"] for record in records} <= {0, 1}


def test_a_worker_that_dies_costs_one_trial_and_leaves_nothing(
    one_bench: Bench, docker_backend: Any
) -> None:
    for number in range(3):
        one_bench.task(f"task-{number}", "sleep 2; touch /app/done")
    process = one_bench.start("--infra-multipliers=1", "-n2")
    study = wait_until(lambda: _study_of_containers(docker_backend, "task-"))
    containers = docker_backend.client.api.containers(
        filters={"label": f"pytest-infranoise={study}"}
    )
    victim = int(containers[0]["Labels"]["pytest-infranoise.owner"].rpartition(":")[2])
    os.kill(victim, signal.SIGKILL)
    own = {"label": f"pytest-infranoise.owner={containers[0]['Labels']['pytest-infranoise.owner']}"}
    api = docker_backend.client.api
    wait_until(lambda: not api.containers(all=True, filters=own), seconds=5)
    assert process.poll() is None  # gone while the run goes on, not at its end
    output, _ = process.communicate(timeout=120)
    causes = sorted(str(record["cause"]) for record in one_bench.records())
    assert causes == ["None", "None", "worker_lost"], output
    lost = next(item for item in one_bench.records() if item["cause"] == "worker_lost")
    assert lost["outcome"] == "infra_error"
    assert lost["oom_kills"] is None
    assert lost["memory_limit_bytes"] == 32 * 1024**2
    assert "1 infra" in output
    assert _containers(docker_backend, study) == []


def _study_of_containers(backend: Any, task: str) -> str | None:
    for item in backend.client.api.containers(filters={"label": "pytest-infranoise"}):
        if task in item["Labels"]["pytest-infranoise.trial"]:
            return str(item["Labels"]["pytest-infranoise"])
    return None


def _containers(backend: Any, study: str) -> list[Any]:
    return list(
        backend.client.api.containers(all=True, filters={"label": f"pytest-infranoise={study}"})
    )


def test_images_are_built_once(one_bench: Bench, docker_backend: Any) -> None:
    directory = one_bench.task("built")
    stamp = str(time.time_ns())
    (directory / "environment" / "stamp").write_text(stamp)
    dockerfile = directory / "environment" / "Dockerfile"
    dockerfile.write_text(dockerfile.read_text() + "COPY stamp /stamp\n")
    result = one_bench.run("--infra-multipliers=1,2,3", "-n3")
    assert result.ret == 0
    assert len({record["image_digest"] for record in one_bench.records()}) == 1
    assert result.stdout.str().count("building") == 1


def test_trials_wait_behind_ordinary_tests_and_both_run(one_bench: Bench) -> None:
    one_bench.task("calm")
    (one_bench.path / "bench" / "test_yes.py").write_text("def test_yes(): pass\n")
    result = one_bench.run("--infra-multipliers=1,2", "-n0", "-v")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*::test_yes PASSED*", "bench/calm/task.toml::* PASSED*"])


def test_a_hungry_task_is_counted_once_under_load(one_bench: Bench) -> None:
    one_bench.task("hungry", f"{hog(64)}; {hog(64)}; {hog(64)}; exit 1")
    one_bench.run("--infra-multipliers=1", "-n2")
    (record,) = one_bench.records()
    assert (record["oom_kills"], record["cause"]) == (3, "survived_then_failed")


@pytest.mark.parametrize("plugin", ["no:xdist", "no:terminal"])
def test_works_without_other_plugins(one_bench: Bench, plugin: str) -> None:
    one_bench.task("calm")
    assert one_bench.run("--infra-multipliers=1", "-p", plugin).ret == 0
    assert len(one_bench.records()) == 1


def test_a_container_removed_from_outside_is_an_infra_error(
    one_bench: Bench, docker_backend: Any
) -> None:
    one_bench.task("removed-one", "sleep 20")
    process = one_bench.start("--infra-multipliers=1", "-n0")
    study = wait_until(lambda: _study_of_containers(docker_backend, "removed-one"))
    time.sleep(1)
    (container,) = _containers(docker_backend, study)
    docker_backend.client.api.remove_container(container["Id"], force=True)
    output, _ = process.communicate(timeout=60)
    (record,) = one_bench.records()
    assert (record["outcome"], record["cause"]) == ("infra_error", "sandbox_lost"), output
    assert record["oom_kills"] is None


@pytest.mark.parametrize("way", ["os._exit(9)", "os.kill(os.getpid(), 11)"])
def test_what_a_dead_worker_left_on_this_host_goes_while_the_run_goes_on(
    local_bench: Bench, local_backend: Any, way: str
) -> None:
    dying = f"dying-{os.getpid()}"  # the run folder is shared with other runs
    for name in ("calm", dying):
        local_bench.task(name)
    (local_bench.path / "solver.py").write_text(
        "import os\n"
        "def solve(instruction, sandbox):\n"
        "    sandbox.exec('sleep 2')\n"
        f"    {way} if sandbox.task.name == '{dying}' else sandbox.exec('sleep 5')\n"
    )
    process = local_bench.start("--infra-multipliers=1", "--infra-agent=solver:solve", "-n2")
    run = Path(local_backend.info.details["base"])

    def left() -> list[str]:
        return [path.name for path in run.glob(f"sandboxes/{dying}*")]

    wait_until(left)
    wait_until(lambda: not left(), seconds=5)
    assert process.poll() is None
    output, _ = process.communicate(timeout=60)
    causes = {record["task"]: record["cause"] for record in local_bench.records()}
    assert causes[dying] == "worker_lost", output
