"""What the doctor says of engines that are here, and of none."""

import pytest

from pytest_infranoise import __version__


@pytest.fixture
def without_docker(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine.sock")


@pytest.fixture
def without_local(monkeypatch):
    monkeypatch.setenv("INFRANOISE_LOCAL_DIR", "/dev/shm")  # memory: refused for layers


def test_a_working_docker_engine(docker_backend, without_local, command):
    code, out, err = command("doctor")
    info = docker_backend.info
    assert (code, err) == (0, "")
    assert f"docker: works ({info.engine}, cgroup v{info.cgroup_version}, hard limit)" in out
    assert str(docker_backend.endpoint) in out
    assert "local: does not work" in out
    assert out.count("would use docker") == 2


def test_a_working_local_backend(local_backend, without_docker, command):
    code, out, err = command("doctor")
    assert (code, err) == (1, "")
    assert f"local: works ({local_backend.info.engine}" in out
    assert "docker: does not work" in out
    assert "no-engine.sock" in out
    assert out.count("would stop") == 2  # an engine that was named is never replaced


def test_the_local_backend_where_no_engine_was_named(local_backend, command, monkeypatch, tmp_path):
    from pytest_infranoise.backends.docker import connection

    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setattr(connection, "DEFAULT_SOCKET", f"unix://{tmp_path}/no-engine.sock")
    code, out, _ = command("doctor")
    assert code == 1
    assert "a run with the oracle or nop would use local" in out
    assert "a run with any other agent would stop" in out


def test_the_example_needs_what_the_exit_code_promises(command):
    code, out, _ = command("doctor", "--help")
    assert code == 0
    out = " ".join(out.split())
    assert "1 if a run with some agent would stop" in out
    # A run with the oracle may work where the exit code is 1.
    assert "--infra-agent=" in out.partition("example:")[2]


def test_no_backend_is_a_finding(without_docker, without_local, command):
    code, out, err = command("doctor")
    assert (code, err) == (1, "")
    assert "docker: does not work" in out
    assert "local: does not work" in out
    assert out.count("would stop") == 2
    assert f"pytest-infranoise {__version__}" in out
    assert "cgroup" in out
    assert "memory" in out
