"""Tasks of several containers, in real trials."""

from pathlib import Path
from typing import Any

import pytest
from bench import BUSYBOX, Bench, hog

from pytest_infranoise.backends.base import LABEL

FETCH = "wget -q -O /app/answer http://store/answer"
JUDGE = '[ "$(cat /app/answer)" = 42 ] && echo 1 >/logs/verifier/reward.txt || exit 1'
SERVE = "mkdir /www; echo 42 >/www/answer; {then} httpd -f -p 80 -h /www"
SERVICES = """
services:
  main:
    build: {{context: "${{CONTEXT_DIR}}"}}
    image: ${{MAIN_IMAGE_NAME}}
    command: ["sh", "-c", "sleep infinity"]
    depends_on: {{store: {{condition: service_healthy}}}}
    volumes: ["data:/data", "${{HOST_VERIFIER_LOGS_PATH}}:${{ENV_VERIFIER_LOGS_PATH}}"]
  store:
    image: {image}
    command: ["sh", "-c", "{serve}"]
    mem_limit: 16m
    ports: ["80:80"]
    volumes: ["data:/data"]
    healthcheck:
      test: ["CMD", "wget", "-q", "-O", "-", "http://127.0.0.1/answer"]
      interval: 1s
      retries: 30
volumes: {{data: }}
"""


def task(bench: Bench, name: str, solve: str, *, then: str = "", **options: Any) -> Path:
    """A task with a helper service that has the answer, once it is healthy."""
    folder = bench.task(name, solve, test=JUDGE, **options)
    services = SERVICES.format(image=BUSYBOX, serve=SERVE.format(then=then))
    (folder / "environment" / "docker-compose.yaml").write_text(services)
    return folder


def left_of(backend: Any, study: str) -> list[Any]:
    """Whatever the engine still has of a study."""
    api, label = backend.client.api, {"label": f"{LABEL}={study}"}
    found = [*api.containers(all=True, filters=label), *api.networks(filters=label)]
    return found + list(api.volumes(filters=label)["Volumes"] or ())


@pytest.fixture
def compose_bench(compose_backend: Any, pytester: pytest.Pytester) -> Bench:
    return Bench(pytester, "docker")


def test_helpers_run_beside_the_agent_and_are_judged_apart(
    compose_bench: Bench, compose_backend: Any
) -> None:
    dies = f"(while [ ! -e /data/go ]; do sleep 0.1; done; {hog(64)}) &"
    wait = "touch /data/go; sleep 2; false"
    task(compose_bench, "answered", FETCH, environment="allow_internet = false")
    task(compose_bench, "helper-dies", wait, then=dies.replace('"', ""))
    apart = task(compose_bench, "apart", "mkdir -p /logs/artifacts; cp /etc/passwd /app/x")
    own = '[verifier]\nenvironment_mode = "separate"'
    toml = (apart / "task.toml").read_text().replace("[verifier]", own)
    collect = '[[verifier.collect]]\ncommand = "cp /www/answer /tmp/state"\nservice = "store"\n'
    artifacts = 'artifacts = [{ source = "/tmp/state", service = "store" }]\n'
    (apart / "task.toml").write_text(f"{artifacts}{toml}{collect}")
    (apart / "tests" / "Dockerfile").write_text(f"FROM {BUSYBOX}\nCOPY test.sh /tests/test.sh\n")
    judge = JUDGE.replace("/app/answer", "/tmp/state")
    (apart / "tests" / "test.sh").write_text(f"#!/bin/sh\n[ ! -e /app/x ] || exit 1\n{judge}\n")
    compose_bench.run("--infra-multipliers=1", "-n0")
    records = {item["task"]: item for item in compose_bench.records()}

    answered = records["answered"]
    assert answered["outcome"] == "passed", answered["phases"]
    store = answered["helpers"]["store"]
    assert (store["memory_limit_bytes"], store["oom_kills"]) == (16 * 1024**2, 0)
    assert store["memory_peak_bytes"] > 0
    assert answered["requested"]["beside_memory_bytes"] == 16 * 1024**2
    assert any(note.startswith("service store: image sha256:") for note in answered["notes"])

    died = records["helper-dies"]
    assert (died["outcome"], died["cause"]) == ("infra_error", "helper_lost"), died["phases"]
    assert died["detail"].startswith("service store had a process killed by the kernel")
    assert (died["oom_kills"], died["helpers"]["store"]["oom_kills"]) == (0, 1)

    assert records["apart"]["outcome"] == "passed", records["apart"]["phases"]
    assert not left_of(compose_backend, answered["study"])


def test_an_agent_that_spoils_its_container_is_judged_by_its_work(compose_bench: Bench) -> None:
    fake = "printf '#!/bin/busybox sh\\nbusybox sleep 99\\n' >/bin/own; chmod +x /bin/own"
    spoilt = {
        "bare": "cd /; rm -rf /app /logs /bin/kill /bin/sleep /bin/tail /bin/mkdir",
        "sleeps": f"{fake}; rm /bin/sh; mv /bin/own /bin/sh",
    }
    for name, solve in spoilt.items():
        folder = task(compose_bench, name, solve)
        judge = JUDGE.replace("cat /app/answer", "wget -q -O - http://store/answer")
        (folder / "tests" / "test.sh").write_text(f"#!/bin/sh\n{judge}\n")
        toml = folder / "task.toml"
        short = "[verifier]\ntimeout_sec = 3\n"
        toml.write_text(toml.read_text().replace("[verifier]\ntimeout_sec = 30\n", short))
    compose_bench.run("--infra-multipliers=1", "-n0")
    found = {item["task"]: (item["outcome"], item["detail"]) for item in compose_bench.records()}
    changed = "the tests could not run: the agent changed /bin/sh"
    assert found == {"bare": ("passed", None), "sleeps": ("failed", changed)}


def test_what_a_dead_run_left_is_swept(compose_bench: Bench, compose_backend: Any) -> None:
    from sandboxes import allocation, request_for

    from pytest_infranoise.cli.leftovers_docker import shared
    from pytest_infranoise.tasks.harbor import read_task

    folder = task(compose_bench, "swept", FETCH)
    read = read_task(folder, host_environment={}).task
    (warning,) = compose_backend.check(read)
    assert warning == "docker-compose.yaml: ports: not published on the host"
    study = f"swept-{compose_bench.path.name}"
    request = request_for(compose_backend, study, allocation(), task=read)
    sandbox = compose_backend.open(request)
    try:
        assert sandbox.exec(["sh", "-c", FETCH]).exit_code == 0
        assert sandbox.service("store").exec(["cat", "/www/answer"]).output == "42\n"
        assert len(left_of(compose_backend, study)) == 5  # containers, network, volumes
        kinds = [item.kind for item in shared(compose_backend.client) if item.study == study]
        assert sorted(kinds) == ["network", "volume", "volume"]
        assert compose_backend.sweep(study) == 1
        assert not left_of(compose_backend, study)
    finally:
        sandbox.close()


def test_mistakes_are_one_line_before_anything_runs(compose_bench: Bench) -> None:
    folder = task(compose_bench, "shares", FETCH)
    file = folder / "environment" / "docker-compose.yaml"
    text = file.read_text()
    for wrong, right, words in (
        ("data:/data", "/tmp:/data", "services.main.volumes: /tmp can be written from inside"),
        ("depends_on", "depends_onn", "Unsupported config option*depends_onn*"),
    ):
        file.write_text(text.replace(wrong, right, 1))
        result = compose_bench.run("--infra-multipliers=1", "-n0")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: bench/shares/environment/{file.name}: *{words}*"])


def test_the_local_backend_has_one_container(local_bench: Bench) -> None:
    task(local_bench, "several", FETCH)
    result = local_bench.run("--infra-multipliers=1", "-n0")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: task several: docker-compose.yaml asks for several cont*"])
