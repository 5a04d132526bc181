"""The local backend over many sandboxes, dead owners, other users and missing rights."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from required import missing_engine
from sandboxes import allocation, request_for

import pytest_infranoise
from pytest_infranoise.backends.local import LocalBackend
from pytest_infranoise.backends.local.capacity import total_memory
from pytest_infranoise.errors import BackendUnavailableError
from pytest_infranoise.model.outcome import Ending
from pytest_infranoise.units import MIB

HOG = "x=a; while :; do x=$x$x; done"
NOBODY = 65534

OPEN_AND_SAY = """
import sys, time
from pathlib import Path
from pytest_infranoise.backends.base import SandboxRequest
from pytest_infranoise.backends.local import LocalBackend
from pytest_infranoise.errors import BackendUnavailableError
from pytest_infranoise.model.resources import Allocation, ResourceSpec
from pytest_infranoise.model.task import ImageSource, PreparedImage, Task

import json, os
try:
    backend = LocalBackend()
except BackendUnavailableError as error:
    print(json.dumps({"unavailable": str(error)}))
    sys.exit()
task = Task("t", "0", ResourceSpec.declared(32 << 20, None), ImageSource())
request = SandboxRequest(
    sys.argv[1], "trial", "dead-owner", task, PreparedImage("host"),
    Allocation(32 << 20, 32 << 20, None, None), masked_paths=[Path(p) for p in sys.argv[3:]],
)
sandbox = backend.open(request)
found = {
    "holder": sandbox.holder_pid,
    "folder": str(sandbox._opened.folder),
    "enforcement": backend.info.enforcement,
    "isolation": backend.info.isolation,
    "outputs": [sandbox.exec(["sh", "-c", line]).output for line in json.loads(sys.argv[2])],
}
counters = sandbox.counters(expect_kill=True)
found["kills"], found["source"] = counters.oom_kills, counters.source
sandbox.exec(["sh", "-c", "sleep 1000 & setsid sleep 1000 & exit 0"])
print(json.dumps(found), flush=True)
if sys.stdin.read() == "":
    sandbox.close()
    backend.close()
"""


@pytest.fixture(scope="module")
def local(open_local_backend: Callable[..., LocalBackend]) -> Iterator[LocalBackend]:
    backend = open_local_backend()
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def watchdog(open_local_backend: Callable[..., LocalBackend]) -> Iterator[LocalBackend]:
    backend = open_local_backend(use_cgroups=False)
    yield backend
    backend.close()


def shell(sandbox: Any, script: str, **options: Any) -> Any:
    return sandbox.exec(["sh", "-c", script], **options)


# --- nothing is left -----------------------------------------------------------------------------


def our_cgroups() -> list[str]:
    return [folder for folder, _, _ in os.walk("/sys/fs/cgroup") if "infranoise-many" in folder]


def our_mounts() -> list[str]:
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    ours = ("overlay infranoise", "/sandboxes/many-")
    return [line for line in text.splitlines() if any(mark in line for mark in ours)]


def test_many_sandboxes_leave_nothing(local: LocalBackend, study: str) -> None:
    def cycle(count: int) -> None:
        for _ in range(count):
            with local.open(request_for(local, study, allocation(), trial="many")) as sandbox:
                assert shell(sandbox, "echo x >/file; (sleep 100 &)").exit_code == 0

    def facts() -> dict[str, Any]:
        return {
            "descriptors": len(list(Path("/proc/self/fd").iterdir())),
            "threads": threading.active_count(),
            "children": len(psutil.Process().children()),
            "cgroups": our_cgroups(),
            "mounts": our_mounts(),
            "folders": list(local._run.sandboxes.glob("many-*")),
        }

    cycle(1)
    before = facts()
    cycle(10)
    workers = [threading.Thread(target=cycle, args=(3,)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert facts() == before
    assert (before["cgroups"], before["mounts"], before["folders"]) == ([], [], [])


def test_deadline_takes_everything_along(local: LocalBackend, study: str) -> None:
    with local.open(request_for(local, study, allocation())) as sandbox:
        script = "trap '' TERM INT; (setsid sleep 1000 &); sleep 1000 & while :; do sleep 1; done"
        result = shell(sandbox, script, timeout_seconds=0.3)
        assert result.ending is Ending.DEADLINE
        assert result.exit_code is None
        assert 0.3 <= result.wall_seconds < 2
        holder = psutil.Process(sandbox.holder_pid)
        assert holder.children(recursive=True) == []
        assert sandbox.counters().oom_kills == 0


def test_leftover_fork_bomb_ends_with_the_sandbox(local: LocalBackend, study: str) -> None:
    with local.open(request_for(local, study, allocation(64 * MIB))) as sandbox:
        shell(sandbox, "f() { f | f & f; }; f & sleep 0.3; exit 0", timeout_seconds=5)
        sandbox.kill_all()
        assert psutil.Process(sandbox.holder_pid).children(recursive=True) == []
        assert shell(sandbox, "echo on").output == "on\n"


# --- dead owners ---------------------------------------------------------------------------------


def start_owner(study: str, *commands: str, python: str = sys.executable, **options: Any) -> Any:
    return subprocess.Popen(
        [python, "-c", OPEN_AND_SAY, study, json.dumps(commands), *options.pop("masks", ())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def wait_until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def test_killed_owner_takes_its_processes_along_and_is_swept(
    local: LocalBackend, study: str
) -> None:
    owner = start_owner(study)
    try:
        found = json.loads(owner.stdout.readline())
        family = psutil.Process(found["holder"]).children(recursive=True)
        assert len(family) == 2
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        assert wait_until(lambda: not any(process.is_running() for process in family))
        assert wait_until(lambda: not psutil.pid_exists(found["holder"]))
        assert Path(found["folder"]).is_dir()
        assert local.sweep("another-study") == 0
        assert local.sweep(study, "another-owner") == 0
        assert local.sweep(study, "dead-owner") == 1
        assert not Path(found["folder"]).exists()
        assert not [name for name in our_cgroup_names() if Path(found["folder"]).name in name]
        assert local.sweep(study) == 0
    finally:
        owner.kill()
        owner.communicate()


def our_cgroup_names() -> list[str]:
    return [folder for folder, _, _ in os.walk("/sys/fs/cgroup") if "infranoise-" in folder]


def test_stopped_owner_is_swept_while_it_holds_a_sandbox(local: LocalBackend, study: str) -> None:
    owner = start_owner(study)
    try:
        found = json.loads(owner.stdout.readline())
        owner.send_signal(signal.SIGSTOP)
        assert local.sweep(study) == 1
        assert wait_until(lambda: not psutil.pid_exists(found["holder"]))
        owner.send_signal(signal.SIGCONT)
        owner.communicate("", timeout=20)
        assert owner.returncode == 0  # closing what is gone does not fail
    finally:
        owner.kill()
        owner.communicate()


# --- watchdog ------------------------------------------------------------------------------------


def test_watchdog_says_so_and_what_it_cannot_know(watchdog: LocalBackend, study: str) -> None:
    assert watchdog.info.enforcement == "watchdog"
    assert watchdog.info.cgroup_version is None
    assert any("CPU limits are not enforced" in note for note in watchdog.info.notes)
    with watchdog.open(request_for(watchdog, study, allocation(48 * MIB, 0.5))) as sandbox:
        limits = sandbox.effective_limits()
        assert limits.source == "watchdog"
        assert limits.values == {"memory_limit_bytes": 48 * MIB, "cpu_limit_cores": None}
        counters = sandbox.counters()
        assert (counters.oom_kills, counters.limit_reached) == (0, None)
        assert counters.source == "watchdog"
        assert counters.memory_peak_bytes is None
        assert counters.cpu_seconds is None


def test_watchdog_kills_the_largest_process(watchdog: LocalBackend, study: str) -> None:
    with watchdog.open(request_for(watchdog, study, allocation(48 * MIB))) as sandbox:
        result = shell(
            sandbox, f"sleep 30 & (x=a; {HOG[4:]}); echo child $?; kill $! && echo small"
        )
        assert "child 137" in result.output
        assert "small" in result.output
        counters = sandbox.counters()
        assert (counters.oom_kills, counters.limit_reached) == (1, True)
        assert shell(sandbox, "echo on").output == "on\n"


def test_watchdog_counts_shared_memory(watchdog: LocalBackend, study: str) -> None:
    with watchdog.open(request_for(watchdog, study, allocation(24 * MIB))) as sandbox:
        script = "head -c 40M /dev/zero >/dev/shm/file; sleep 1"
        assert shell(sandbox, script, timeout_seconds=20).exit_code == 137
        assert sandbox.counters().oom_kills >= 1


def test_watchdog_spares_what_carries_files(
    watchdog: LocalBackend, study: str, tmp_path: Path
) -> None:
    """A full shared memory kills the trial's processes, not the holder's own helpers."""
    (tmp_path / "file").write_bytes(bytes(40 * MIB))
    with watchdog.open(request_for(watchdog, study, allocation(24 * MIB))) as sandbox:
        sandbox.put(tmp_path / "file", "/dev/shm/file")
        for _ in range(100):
            assert sandbox.read("/dev/shm/file", max_bytes=MIB) == bytes(MIB)
        assert sandbox.counters().oom_kills == 0
        assert shell(sandbox, "sleep 5").exit_code == 137


def test_watchdog_leaves_what_fits_alone(watchdog: LocalBackend, study: str) -> None:
    """Page cache and pages that many processes share are no reason to kill."""
    with watchdog.open(request_for(watchdog, study, allocation(24 * MIB))) as sandbox:
        script = (
            "head -c 100M /dev/zero >/var/file; cat /var/file >/dev/null; "
            "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.5 & done; wait"
        )
        assert shell(sandbox, script).exit_code == 0
        assert sandbox.counters().oom_kills == 0


def test_no_watchdog_when_uncapped(watchdog: LocalBackend, study: str) -> None:
    with watchdog.open(request_for(watchdog, study, allocation(None))) as sandbox:
        assert shell(sandbox, "true").exit_code == 0
        counters = sandbox.counters()
        assert (counters.oom_kills, counters.source) == (None, None)
        assert sandbox.effective_limits().values["memory_limit_bytes"] is None


# --- other users and missing rights --------------------------------------------------------------


@pytest.fixture(scope="module")
def python_for_anybody(real_engine: None) -> Iterator[list[str]]:
    """An interpreter and a copy of the package that user nobody may use."""
    if os.geteuid() != 0:
        missing_engine("local", "needs root to become another user")
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    site = Path("/var/tmp") / f"infranoise-site-{os.getpid()}"
    site.mkdir()
    for module in (pytest_infranoise, psutil):
        folder = Path(module.__file__ or "").parent
        shutil.copytree(folder, site / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["chmod", "-R", "a+rX", str(site)], check=True)
    check = (
        "import subprocess, sys, psutil; subprocess.run([sys.executable, '-c', ''], check=True); "
        "sys.exit(sys.version_info < (3, 11))"
    )
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": str(site)}
    for name in (os.path.realpath(sys.executable), shutil.which("python3", path="/usr/bin:/bin")):
        command = [*drop, str(name), "-c", check]
        if name and subprocess.run(command, env=environment, check=False).returncode == 0:
            yield ["env", *(f"{key}={value}" for key, value in environment.items()), *drop, name]
            break
    else:
        shutil.rmtree(site)
        missing_engine("local", "no interpreter that user nobody may use")
    shutil.rmtree(site)


def run_owner(prefix: list[str], study: str, *commands: str, masks: tuple[str, ...] = ()) -> Any:
    done = subprocess.run(
        [*prefix, "-c", OPEN_AND_SAY, study, json.dumps(commands), *masks],
        input="", capture_output=True, text=True, check=False, cwd="/", timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_ordinary_user(python_for_anybody: list[str], study: str) -> None:
    found = run_owner(
        python_for_anybody,
        study,
        "id -u; echo x >>/etc/passwd || echo refused; echo y >/app/file; cat /app/file",
        "ls -A /usr/share",
        f"({HOG}); echo $?",
        masks=("/usr/share",),
    )
    if "unavailable" in found:
        missing_engine("local", found["unavailable"])
    assert found["outputs"][0].split("\n")[0] == "0"
    assert "refused" in found["outputs"][0]
    assert found["outputs"][0].endswith("y\n")
    assert found["outputs"][1] == ""
    assert "137" in found["outputs"][2]
    assert found["kills"] == 1
    assert "system paths read-only" in found["isolation"]
    if found["enforcement"] == "watchdog":
        assert found["source"] == "watchdog"
    assert not Path(f"/var/tmp/infranoise-local-{NOBODY}").exists()


@pytest.mark.parametrize("base", ["/var/tmp", "/dev/shm"])
def test_missing_namespaces_are_one_line(
    python_for_anybody: list[str], study: str, base: str
) -> None:
    """In a user namespace that allows no further ones, as in a container's default confinement."""
    allow_none = (
        'echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all "$@"'
    )
    prefix = ["unshare", "--user", "--map-root-user", "sh", "-c", allow_none, "sh"]
    command = python_for_anybody[: python_for_anybody.index("setpriv")]
    command.append(f"INFRANOISE_LOCAL_DIR={base}")
    found = run_owner([*command, *prefix, python_for_anybody[-1]], study)
    message = found["unavailable"]
    assert message.startswith("local backend: this host does not allow an ordinary user user names")
    assert "max_user_namespaces" in message
    assert "--infra-backend=docker" in message
    assert "\n" not in message


def test_base_without_room_for_layers_is_one_line(
    monkeypatch: pytest.MonkeyPatch, study: str
) -> None:
    monkeypatch.setenv("INFRANOISE_LOCAL_DIR", "/proc")
    with pytest.raises(BackendUnavailableError) as caught:
        LocalBackend()
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("local")
def test_forgotten_backend_leaves_nothing() -> None:
    base = Path("/var/tmp") / f"infranoise-forgotten-{os.getpid()}"
    base.mkdir()
    script = "from pytest_infranoise.backends.local import LocalBackend; b = LocalBackend()"
    environment = {**os.environ, "INFRANOISE_LOCAL_DIR": str(base)}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    base.rmdir()  # so it is empty


def test_base_with_hostile_name(
    monkeypatch: pytest.MonkeyPatch,
    study: str,
    open_local_backend: Callable[..., LocalBackend],
) -> None:
    base = Path("/var/tmp") / f"infranoise test:{os.getpid()},a\\b"
    base.mkdir()
    monkeypatch.setenv("INFRANOISE_LOCAL_DIR", str(base))
    backend = open_local_backend()
    try:
        with backend.open(request_for(backend, study, allocation())) as sandbox:
            assert shell(sandbox, f"ls -A '{base}'/*").output == ""
    finally:
        backend.close()
    base.rmdir()


def test_memory_that_the_task_sees_is_the_hosts(local: LocalBackend, study: str) -> None:
    with local.open(request_for(local, study, allocation())) as sandbox:
        line = shell(sandbox, "grep MemTotal /proc/meminfo").output
        assert int(line.split()[1]) * 1024 == total_memory()
