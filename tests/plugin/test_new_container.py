"""What the format does to a new container: the image's entrypoint, and files for a prebuilt one."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from bench import BUSYBOX, Bench, _script
from sandboxes import PYTHON

SERVICE = """#!/bin/sh
echo "$(id -un) $#" >/tmp/ready
exec "$@"
"""
HEALTH = '[environment.healthcheck]\ncommand = "grep -q ^daemon.3 /tmp/ready"\ninterval_sec = 0.1\n'
APART = 'environment_mode = "separate"\n'


def with_entrypoint(folder: Path) -> Path:
    _script(folder / "environment" / "entry.sh", SERVICE)
    (folder / "environment" / "Dockerfile").write_text(
        f"FROM {PYTHON}\nWORKDIR /app\nCOPY entry.sh /entry.sh\nRUN chmod 777 /app\n"
        'USER daemon\nENTRYPOINT ["/entry.sh"]\n'
    )
    return folder


@pytest.fixture
def docker_bench(pytester: pytest.Pytester, docker_image: Callable[[str], str]) -> Bench:
    docker_image(BUSYBOX)
    docker_image(PYTHON)
    return Bench(pytester, "docker")


def test_the_entrypoint_runs_beside_the_holder(docker_bench: Bench) -> None:
    bench = docker_bench
    with_entrypoint(bench.task("healthy", extra=HEALTH))
    fails = with_entrypoint(bench.task("fails"))
    _script(fails / "environment" / "entry.sh", "exit 1")
    installed = ("--infra-agent-install=true", "--infra-agent=touch /app/done")
    for more in ((), installed):
        bench.run("--infra-multipliers=1", "-n2", *more)
        assert {item["task"]: item["outcome"] for item in bench.records()} == {
            "healthy": "passed",
            "fails": "passed",
        }


def test_files_beside_a_prebuilt_image_come_into_its_working_folder(docker_bench: Bench) -> None:
    bench = docker_bench
    reward = "[ -e data/in.txt ] && [ -e .hidden ] && echo 1 >/logs/verifier/reward.txt"
    for name, mode in (("shared", ""), ("apart", APART)):
        folder = bench.task(
            name,
            test=f"{reward}\n",
            environment=f'docker_image = "{BUSYBOX}"\nworkdir = "/srv"',
        )
        (folder / "environment" / "Dockerfile").unlink()
        (folder / "environment" / "data").mkdir()
        (folder / "environment" / "data" / "in.txt").write_text("in\n")
        (folder / "environment" / ".hidden").write_text("in\n")
        toml = folder / "task.toml"
        toml.write_text(toml.read_text().replace("[verifier]\n", f"[verifier]\n{mode}", 1))
        _script(folder / "solution" / "solve.sh", "cat data/in.txt .hidden")
    bench.run("--infra-multipliers=1", "-n2")
    assert {item["task"]: item["outcome"] for item in bench.records()} == {
        "shared": "passed",
        "apart": "passed",
    }


def test_a_dockerfile_stands_in_for_an_image_that_cannot_be_had(docker_bench: Bench) -> None:
    bench = docker_bench
    bench.task("far", environment='docker_image = "127.0.0.1:9/no/such:tag"')
    refused = bench.run("--infra-multipliers=1", "-n0")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["*cannot pull *; --infra-build=missing builds its Dockerfile*"])
    bench.run("--infra-multipliers=1", "-n1", "--infra-build=missing")
    assert [item["outcome"] for item in bench.records()] == ["passed"]
    manifest = json.loads((bench.studies()[-1] / "manifest.json").read_text())
    assert manifest["image_build"] == "missing"
