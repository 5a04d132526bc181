"""What is left over and goes, and what is in use and stays."""

import fcntl
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from sandboxes import BUSYBOX, allocation, request_for

from pytest_infranoise.admission import AdmissionLedger, Budget, Request
from pytest_infranoise.admission.entry import birth_of
from pytest_infranoise.backends.docker import connection
from pytest_infranoise.backends.local.state import SandboxState, run_folder_path, write_state
from pytest_infranoise.cli import leftovers, leftovers_local
from pytest_infranoise.cli.leftovers import Found, Life, life_of_owner, removable

HOST = socket.gethostname()


@pytest.fixture
def dead_pid():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def living_pid():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process.pid
    process.communicate()


# --- who is alive --------------------------------------------------------------------------------


def test_owners(dead_pid, living_pid):
    now = time.time()
    assert life_of_owner(f"{HOST}:{living_pid}", now)[0] is Life.ALIVE
    assert life_of_owner(f"{HOST}:{living_pid}", None)[0] is Life.ALIVE
    assert life_of_owner(str(living_pid), now)[0] is Life.ALIVE
    assert life_of_owner(f"{HOST}:{dead_pid}", now)[0] is Life.DEAD


@pytest.mark.parametrize(
    "owner", ["", ":", "tests", f"{HOST}:", f"{HOST}:x", "elsewhere:1", "a:b:c"]
)
def test_owners_that_cannot_be_judged(owner):
    assert life_of_owner(owner, 0.0)[0] is Life.UNKNOWN


def test_a_number_that_belongs_to_a_later_process_by_now(living_pid):
    owner = f"{HOST}:{living_pid}"
    an_hour_ago = time.time() - 3600
    assert life_of_owner(owner, an_hour_ago)[0] is Life.DEAD
    assert life_of_owner(owner, time.time() - leftovers.CLOCK_SLACK_SECONDS / 2)[0] is Life.ALIVE
    assert "later" in life_of_owner(owner, an_hour_ago)[1]


def found(study, life, kind="container"):
    return Found(kind, f"{study}-{life.value}", study, life, "", lambda: None)


def test_nothing_of_a_living_study_goes():
    a_dead, a_alive = found("a", Life.DEAD), found("a", Life.ALIVE)
    b_dead, c_unknown = found("b", Life.DEAD), found("c", Life.UNKNOWN)
    image = found(None, Life.DEAD, "image")
    everything = [a_dead, a_alive, b_dead, c_unknown, image]
    assert removable(everything, None) == ([b_dead, image], [a_dead, a_alive, c_unknown])
    assert removable(everything, "a") == ([], [a_dead, a_alive])
    assert removable(everything, "b") == ([b_dead], [])
    assert removable(everything, "nobody") == ([], [])


def test_reservations_of_the_living(tmp_path, dead_pid):
    ledger = AdmissionLedger("engine", directory=tmp_path)
    assert not leftovers.someone_reserves(tmp_path)
    with ledger.admit(Request(1, None), budget=Budget(10, 1.0)):
        assert leftovers.someone_reserves(tmp_path)
        (entry,) = [path for path in tmp_path.glob("*/*") if path.name != "lock"]
        parts = entry.name.split(".")
        parts[2] = str(dead_pid)
        entry.rename(entry.with_name(".".join(parts)))
        assert not leftovers.someone_reserves(tmp_path)


# --- the local backend ---------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A place of its own for sandboxes and flags, and no engine."""
    for name in ("local", "flags"):
        (tmp_path / name).mkdir(mode=0o700)
    monkeypatch.setattr(leftovers_local, "choose_base", lambda: tmp_path / "local")
    monkeypatch.setattr(leftovers, "default_directory", lambda: tmp_path / "flags")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setattr(connection, "DEFAULT_SOCKET", f"unix://{tmp_path}/no-engine.sock")
    return tmp_path


@pytest.fixture
def run_folder(here):
    folder = run_folder_path(here / "local")
    (folder / "sandboxes").mkdir(parents=True, mode=0o700)
    (folder / "layers" / "sha256-1").mkdir(parents=True)
    return folder


@pytest.fixture
def in_use(run_folder):
    handle = os.open(run_folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(handle, fcntl.LOCK_SH)
    yield
    os.close(handle)


def leave(run_folder, name, study, owner, holder=None):
    folder = run_folder / "sandboxes" / name
    folder.mkdir()
    write_state(folder, SandboxState(study, f"trial-{name}", owner, (), holder))
    (folder / "upper").mkdir()
    return folder


def test_while_others_run_only_what_is_dead_goes(run_folder, in_use, dead_pid, living_pid, command):
    dead = leave(run_folder, "dead", "old", f"{HOST}:{dead_pid}")
    alive = leave(run_folder, "alive", "new", f"{HOST}:{living_pid}")
    beside = leave(run_folder, "beside", "new", f"{HOST}:{dead_pid}")
    elsewhere = leave(run_folder, "elsewhere", "far", "elsewhere:1")
    (run_folder / "sandboxes" / "begun").mkdir()
    code, out, err = command("clean")
    assert (code, err) == (0, "")
    assert not dead.exists()
    assert all(folder.exists() for folder in (alive, beside, elsewhere, run_folder))
    assert (run_folder / "sandboxes" / "begun").exists()
    assert "removed sandbox dead (study old, " in out
    assert out.splitlines()[-1] == "removed 1, left 4"


def test_when_nobody_runs_everything_goes(run_folder, living_pid, command):
    leave(run_folder, "any", "old", f"{HOST}:{living_pid}")  # the lock knows better than a number
    leave(run_folder, "far", "old", "elsewhere:1")
    (run_folder / "sandboxes" / "begun").mkdir()
    code, out, _ = command("clean")
    assert code == 0
    assert out.splitlines()[-1] == "removed 4, left 0"
    assert not run_folder.exists()
    assert command("clean")[1].splitlines()[-1] == "removed 0, left 0"


def test_one_study_alone(run_folder, dead_pid, command):
    mine = leave(run_folder, "mine", "mine", f"{HOST}:{dead_pid}")
    other = leave(run_folder, "other", "other", f"{HOST}:{dead_pid}")
    _, out, _ = command("clean", "--study", "mine")
    assert not mine.exists()
    assert other.exists()
    assert out.splitlines()[-1] == "removed 1, left 0"


def test_a_dry_run_removes_nothing(run_folder, here, dead_pid, command):
    folder = leave(run_folder, "dead", "old", f"{HOST}:{dead_pid}")
    old_flags(here)
    code, out, _ = command("clean", "--dry-run")
    assert code == 0
    assert folder.exists()
    assert (here / "flags" / "run-old").exists()
    assert "would remove sandbox dead" in out
    assert out.splitlines()[-1] == "would remove 3, left 0"


def test_a_holder_that_still_runs_is_ended(run_folder, dead_pid, command):
    process = subprocess.Popen(["sleep", "600"])
    holder = (process.pid, birth_of(process.pid))
    leave(run_folder, "dead", "old", f"{HOST}:{dead_pid}", holder)
    command("clean")
    assert process.wait(10) == -9


def test_what_cannot_be_removed_is_a_finding(run_folder, in_use, dead_pid, command, monkeypatch):
    leave(run_folder, "dead", "old", f"{HOST}:{dead_pid}")

    def refuse(path, state):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(leftovers_local, "remove_sandbox", refuse)
    code, out, err = command("clean")
    assert (code, err) == (1, "")
    assert "cannot remove sandbox dead" in out
    assert "Permission denied" in out
    assert out.splitlines()[-1] == "removed 0, left 1"


# --- flags ---------------------------------------------------------------------------------------


def old_flags(here, study="old", age_seconds=3600):
    folder = here / "flags" / f"run-{study}"
    folder.mkdir()
    (folder / "stop").touch()
    then = time.time() - age_seconds
    os.utime(folder, (then, then))
    return folder


def test_flags_of_dead_runs_go(here, command):
    flags, fresh = old_flags(here), old_flags(here, "fresh", age_seconds=1)
    _, out, _ = command("clean")
    assert not flags.exists()
    assert fresh.exists()
    assert out.splitlines()[-1] == "removed 1, left 1"


def test_flags_stay_while_somebody_reserves(here, command):
    flags = old_flags(here)
    ledger = AdmissionLedger("engine", directory=here / "flags")
    with ledger.admit(Request(1, None), budget=Budget(10, 1.0)):
        command("clean")
        assert flags.exists()
    command("clean")
    assert not flags.exists()


def test_flags_stay_while_a_sandbox_is_open(run_folder, in_use, here, living_pid, command):
    leave(run_folder, "alive", "new", f"{HOST}:{living_pid}")
    flags = old_flags(here)
    command("clean")
    assert flags.exists()


# --- docker --------------------------------------------------------------------------------------


def test_containers_of_dead_owners_go(
    docker_backend, docker_image, study, dead_pid, living_pid, command
):
    docker_image(BUSYBOX)
    request = request_for(docker_backend, study, allocation(), owner=f"{HOST}:{dead_pid}")
    dead = docker_backend.open(request)
    alive = docker_backend.open(replace(request, study=f"{study}-b", owner=f"{HOST}:{living_pid}"))
    try:
        code, out, err = command("clean", "--study", study, "--dry-run")
        assert (code, err) == (0, "")
        assert dead.is_alive()
        assert out.splitlines()[-1] == "would remove 1, left 0"
        code, out, _ = command("clean", "--study", study)
        assert code == 0
        assert f"(study {study}, its owner, process {dead_pid}, is gone)" in out
        assert not dead.is_alive()
        _, out, _ = command("clean", "--study", f"{study}-b")
        assert out.splitlines()[-1] == "removed 0, left 1"
        assert alive.is_alive()
    finally:
        dead.close()
        alive.close()


def test_images_that_were_built(docker_backend, docker_image, study, tmp_path):
    from pytest_infranoise.backends.docker.images import IMAGE_LABEL
    from pytest_infranoise.cli.leftovers_docker import images

    docker_image(BUSYBOX)
    (tmp_path / "Dockerfile").write_text(f"FROM {BUSYBOX}\nENV STUDY={study}\n")
    name = f"pytest-infranoise/{study}:1"
    client = docker_backend.client
    client.images.build(path=str(tmp_path), tag=name, labels={IMAGE_LABEL: study}, rm=True)
    (kept,) = [item for item in images(client, True) if item.name == name]
    assert kept.life is Life.UNKNOWN
    (item,) = [item for item in images(client, False) if item.name == name]
    assert item.life is Life.DEAD
    item.remove()
    assert not client.images.list(name=name)
    assert client.images.list(name=BUSYBOX)


def test_a_named_engine_that_does_not_answer_is_a_finding(here, command, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{here}/no-engine.sock")
    code, out, err = command("clean")
    assert (code, err) == (1, "")
    assert "docker: not looked at" in out
