"""What is special to the local backend's sandboxes, on this host for real."""

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from required import missing_engine
from sandboxes import allocation, make_task, request_for

from pytest_infranoise.backends.base import Sandbox, StepResult
from pytest_infranoise.backends.local import LocalBackend
from pytest_infranoise.errors import SandboxError, UsageError
from pytest_infranoise.model.outcome import Cause, Ending
from pytest_infranoise.model.task import ImageSource
from pytest_infranoise.units import MIB

DOCKER_DEFAULT_CAPABILITIES = 0xA80425FB

Opener = Callable[..., Any]


def shell(sandbox: Sandbox, script: str, **options: Any) -> StepResult:
    return sandbox.exec(["sh", "-c", script], **options)


def output(sandbox: Sandbox, script: str, **options: Any) -> str:
    result = shell(sandbox, script, **options)
    assert result.exit_code == 0, result
    return result.output


@pytest.fixture
def root() -> None:
    """Needed to mount."""
    if os.geteuid() != 0:
        missing_engine("local", "needs root to mount")


@pytest.fixture(scope="module", params=["as root", "as user"])
def local(
    request: pytest.FixtureRequest, open_local_backend: Callable[..., LocalBackend]
) -> Iterator[LocalBackend]:
    """The backend with each of its two ways to make a view."""
    as_user = request.param == "as user"
    if os.geteuid() != 0 and not as_user:
        missing_engine("local", "needs root")
    backend = open_local_backend(as_user=as_user)
    yield backend
    backend.close()


@pytest.fixture
def open_local(local: LocalBackend, study: str) -> Iterator[Opener]:
    opened = []

    def open_one(given: Any = None, **changes: Any) -> Sandbox:
        opened.append(local.open(request_for(local, study, given or allocation(), **changes)))
        return opened[-1]

    yield open_one
    for sandbox in opened:
        sandbox.close()


@pytest.fixture
def host_folder() -> Iterator[Path]:
    """A folder on the host's disk that a sandbox can see (its /tmp is its own)."""
    folder = Path("/var/tmp") / f"infranoise-test-{os.getpid()}"
    folder.mkdir()
    folder.chmod(0o755)
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


# --- the view ------------------------------------------------------------------------------------


def test_host_files_are_seen_and_stay_as_they_are(open_local: Opener, host_folder: Path) -> None:
    (host_folder / "file").write_text("host", encoding="utf-8")
    (host_folder / "gone").write_text("host", encoding="utf-8")
    sandbox = open_local()
    script = f"cd {host_folder}; cat file; echo changed >file; rm gone; touch new; cat file; ls"
    assert output(sandbox, script) == "hostchanged\nfile\nnew\n"
    sandbox.close()
    assert (host_folder / "file").read_text(encoding="utf-8") == "host"
    assert sorted(path.name for path in host_folder.iterdir()) == ["file", "gone"]


def test_system_folders_are_protected(open_local: Opener) -> None:
    before = Path("/etc/passwd").stat()
    marker = f"infranoise-{os.getpid()}"
    sandbox = open_local()
    shell(
        sandbox, f"echo x >>/etc/passwd; touch /etc/{marker} /usr/{marker} /{marker} /tmp/{marker}"
    )
    assert output(sandbox, f"ls /{marker} /tmp/{marker}") == f"/{marker}\n/tmp/{marker}\n"
    for folder in ("/etc", "/usr", "/", "/tmp"):
        assert not Path(folder, marker).exists()
    assert Path("/etc/passwd").stat().st_mtime_ns == before.st_mtime_ns


def test_own_folders_are_fresh(open_local: Opener) -> None:
    sandbox = open_local()
    names = "/app /tests /solution /tmp /logs/agent /logs/verifier /logs/artifacts"
    assert output(sandbox, f"for f in {names}; do ls -A $f; done; pwd") == "/app\n"
    assert output(sandbox, "stat -c %a /tmp /logs/agent") == "1777\n777\n"


def test_two_sandboxes_do_not_see_each_other(open_local: Opener) -> None:
    one, two = open_local(), open_local()
    shell(one, "echo mine >/app/file; echo mine >/var/file; sleep 100 &")
    assert output(two, "ls -A /app; cat /var/file || echo none").endswith("none\n")
    assert "mine" not in output(two, "ls -A /app; cat /app/file || true")
    assert "sleep" not in output(two, "cat /proc/[0-9]*/comm")


def test_devices(open_local: Opener) -> None:
    sandbox = open_local()
    script = "echo x >/dev/null; head -c 3 /dev/zero | wc -c; head -c 3 /dev/urandom | wc -c"
    assert output(sandbox, script).split() == ["3", "3"]
    assert output(sandbox, "echo out >/dev/stdout; echo err >/dev/stderr") == "out\nerr\n"
    names = output(sandbox, "ls /dev").split()
    assert sorted(names) == ["fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm",
                             "stderr", "stdin", "stdout", "tty", "urandom", "zero"]  # fmt: skip
    shell(sandbox, "echo x >/dev/shm/infranoise-file")
    assert not Path("/dev/shm/infranoise-file").exists()


# --- masks ---------------------------------------------------------------------------------------

UNMASK_ATTEMPTS = (
    "umount {path}",
    "umount -l {path}",
    "umount -l /",
    "rmdir {path}; mkdir {path}",
    "rm -rf {path}",
    "mv {path} {path}.moved",
    "setfattr -x trusted.overlay.opaque {path}; setfattr -x user.overlay.opaque {path}",
    "mount -t tmpfs x {parent}",
    "unshare -Urm umount {path}",
    "unshare -m umount {path}",
    "nsenter -t 1 -m cat {path}/test.sh",
    "chroot /proc/1/root cat {path}/test.sh",
    "cat /proc/1/root{path}/test.sh /proc/1/cwd{path}/test.sh",
    "cat /proc/*/root{path}/test.sh",
    "for f in /proc/1/fd/*; do ls $f/; cat $f{path}/test.sh; done",
    "mknod /disk b {major} {minor}; head -c 1 /disk && echo disk is readable",
)


@pytest.mark.parametrize("attempt", UNMASK_ATTEMPTS)
def test_masked_folders_cannot_be_recovered(
    open_local: Opener, host_folder: Path, attempt: str
) -> None:
    tasks = host_folder / "tasks"
    (tasks / "one" / "tests").mkdir(parents=True)
    (tasks / "test.sh").write_text("the answer is 42", encoding="utf-8")
    (tasks / "one" / "tests" / "test.sh").write_text("the answer is 42", encoding="utf-8")
    device = host_folder.stat().st_dev
    script = attempt.format(
        path=tasks, parent=host_folder, major=os.major(device), minor=os.minor(device)
    )
    sandbox = open_local(masked_paths=[tasks])
    assert output(sandbox, f"ls -A {tasks}") == ""
    tried = shell(sandbox, script)
    assert "42" not in tried.output
    assert "readable" not in tried.output
    found = shell(sandbox, f"grep -rs 'the answer is 42' {host_folder}; ls -R {tasks}*")
    assert "42" not in found.output
    assert "test.sh" not in found.output


def test_masked_file_and_link(open_local: Opener, host_folder: Path) -> None:
    (host_folder / "file").write_text("secret", encoding="utf-8")
    (host_folder / "real").mkdir()
    (host_folder / "real" / "x").write_text("secret", encoding="utf-8")
    (host_folder / "link").symlink_to("real")
    sandbox = open_local(masked_paths=[host_folder / "file", host_folder / "link"])
    assert output(sandbox, f"ls {host_folder}; ls {host_folder}/link/") == "link\nreal\n"


@pytest.mark.usefixtures("root")
def test_masked_folder_is_hidden_where_a_bind_mount_shows_it(
    open_local: Opener, host_folder: Path
) -> None:
    for name in ("tasks", "again"):
        (host_folder / name).mkdir()
    (host_folder / "tasks" / "x").write_text("secret", encoding="utf-8")
    again = str(host_folder / "again")
    subprocess.run(["mount", "--bind", str(host_folder / "tasks"), again], check=True)
    try:
        sandbox = open_local(masked_paths=[host_folder / "tasks"])
        assert "x" not in shell(sandbox, f"ls {again}; cat {again}/x").output.split()
        sandbox.close()
    finally:
        subprocess.run(["umount", again], check=True)


@pytest.mark.usefixtures("root")
def test_mounts_deep_in_a_folder_change_nothing(open_local: Opener, host_folder: Path) -> None:
    """An ordinary user's view of such a folder is put together in parts."""
    inner = host_folder / "deep" / "mounted"
    inner.mkdir(parents=True)
    (host_folder / "file").write_text("host", encoding="utf-8")
    subprocess.run(["mount", "-t", "tmpfs", "infranoise-test", str(inner)], check=True)
    try:
        (inner / "hidden").touch()
        sandbox = open_local()
        assert output(sandbox, f"cat {host_folder}/file; ls -A {inner}; ls -d /var/lib") == (
            "host/var/lib\n"
        )
        shell(sandbox, f"echo x >>{host_folder}/file; echo x >{inner}/new")
        sandbox.close()
        assert (host_folder / "file").read_text(encoding="utf-8") == "host"
        assert [path.name for path in inner.iterdir()] == ["hidden"]
    finally:
        subprocess.run(["umount", str(inner)], check=True)


def test_run_folder_with_the_layers_is_masked(open_local: Opener) -> None:
    sandbox = open_local()
    run = f"/var/tmp/infranoise-local-{os.geteuid()}"
    if Path(run).is_dir():
        assert output(sandbox, f"ls -A {run}") == ""


# --- what a step may not do ----------------------------------------------------------------------


def test_capabilities_are_no_wider_than_dockers(open_local: Opener) -> None:
    text = output(open_local(), "cat /proc/self/status")
    sets = {line.split()[0]: int(line.split()[1], 16) for line in text.splitlines() if
            line.startswith("Cap")}  # fmt: skip
    assert sets["CapEff:"] != 0
    for name, value in sets.items():
        assert value & ~DOCKER_DEFAULT_CAPABILITIES == 0, name


@pytest.mark.parametrize(
    "script",
    [
        "echo 1 >/proc/sys/vm/drop_caches",
        "echo b >/proc/sysrq-trigger",
        "mkdir /sys/fs/cgroup/memory/mine || mkdir /sys/fs/cgroup/mine",
        "echo 1 >/sys/kernel/mm/transparent_hugepage/enabled",
        "mount -t tmpfs x /mnt",
        "mount -o remount,rw /proc/sys",
        "unshare -U true",
        "unshare -m true",
        "chroot /proc/1/root true",
        "hostname changed",
        "kill -9 1 && sleep 0.2 && kill -0 1 && exit 1",
    ],
)
def test_what_a_step_may_not_do(open_local: Opener, script: str) -> None:
    sandbox = open_local()
    assert shell(sandbox, script).exit_code != 0
    assert sandbox.is_alive()


def test_clone_with_namespaces_is_refused_but_threads_are_not(open_local: Opener) -> None:
    python = next((str(path) for path in (Path("/usr/bin/python3"),) if path.exists()), None)
    if python is None:
        missing_engine("local", "no python3 of the system")
    script = (
        "import ctypes, threading\n"
        "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "print(libc.unshare(0x10000000), ctypes.get_errno())\n"
    )
    assert open_local().exec([python, "-c", script]).output == "thread\n-1 1\n"


def test_limits_are_visible_but_not_writable(open_local: Opener) -> None:
    sandbox = open_local(allocation(48 * MIB))
    name = "/sys/fs/cgroup/memory/memory.limit_in_bytes"
    script = f"cat {name} 2>/dev/null || cat /sys/fs/cgroup/memory.max"
    if not sandbox._opened.as_user:
        assert int(output(sandbox, script)) == 48 * MIB
    assert shell(sandbox, f"echo 1 >{name} || echo 1 >/sys/fs/cgroup/memory.max").exit_code != 0


def test_holder_does_not_heed_signals_from_inside(open_local: Opener) -> None:
    sandbox = open_local()
    for signal in ("TERM", "INT", "HUP", "KILL", "STOP", "ABRT", "USR1"):
        shell(sandbox, f"kill -{signal} 1")
    shell(sandbox, "kill -KILL -1")
    assert output(sandbox, "echo on") == "on\n"


# --- steps ---------------------------------------------------------------------------------------


def test_step_begins_in_a_session_of_its_own(open_local: Opener) -> None:
    script = "read pid name state parent group session rest </proc/self/stat; echo $pid $session"
    pid, session = output(open_local(), script).split()
    assert pid == session


def test_environment_is_the_hosts_path_and_little_else(
    open_local: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    monkeypatch.setenv("LC_TIME", "C")
    lines = output(open_local(), "env").splitlines()
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    assert found["PATH"] == os.environ["PATH"]
    assert found["HOME"] == "/root"
    assert found["LC_TIME"] == "C"
    assert set(found) <= {"PATH", "HOME", "PWD", "LANG", "LANGUAGE", "TZ", "_", "SHLVL", "OLDPWD",
                          *(name for name in os.environ if name.startswith("LC_"))}  # fmt: skip


def test_large_requests_and_output(open_local: Opener) -> None:
    sandbox = open_local(allocation(128 * MIB))
    big = "x" * 100_000
    result = sandbox.exec(["sh", "-c", 'echo "${#A} ${#B} ${#C}"'],
                          environment={"A": big, "B": big, "C": big})  # fmt: skip
    assert result.output == "100000 100000 100000\n"
    printed = shell(sandbox, "head -c 200000000 /dev/zero")
    assert printed.output_bytes == 200_000_000
    assert printed.output_truncated
    assert len(printed.output) == 16 * 1024


def test_user_and_group(local: LocalBackend, open_local: Opener) -> None:
    sandbox = open_local()
    if sandbox._opened.as_user:
        assert shell(sandbox, "id", user="nobody").exit_code == 126
        return
    found = output(sandbox, "id -u; id -g; grep CapEff /proc/self/status", user="1234:99")
    assert found.split() == ["1234", "99", "CapEff:", "0000000000000000"]
    assert shell(sandbox, "id", user="no-such-user").exit_code == 126


def test_missing_folder_says_so(open_local: Opener) -> None:
    result = open_local().exec(["pwd"], workdir="/no/such/folder")
    assert result.exit_code == 126
    assert "/no/such/folder" in result.output


def test_background_child_keeps_its_output_open(open_local: Opener) -> None:
    """A service that logs to the step's output must not die of a closed pipe afterwards."""
    sandbox = open_local()
    script = "(for i in 1 2 3 4 5 6; do sleep 0.1; echo still here || exit 1; done; touch /done) &"
    assert shell(sandbox, script).wall_seconds < 0.5
    found = output(sandbox, "i=0; while [ ! -e /done ] && [ $i -lt 50 ]; do sleep 0.1; "
                            "i=$((i+1)); done; ls /done")  # fmt: skip
    assert found == "/done\n"


def test_steps_of_several_threads_do_not_mix(open_local: Opener) -> None:
    from concurrent.futures import ThreadPoolExecutor

    sandbox = open_local()
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda n: output(sandbox, f"sleep 0.05; echo {n}"), range(24)))
    assert found == [f"{n}\n" for n in range(24)]


def test_kill_from_another_thread_ends_a_step(open_local: Opener) -> None:
    import threading

    sandbox = open_local()
    timer = threading.Timer(0.3, sandbox.kill_all)
    timer.start()
    result = shell(sandbox, "sleep 30")
    timer.join()
    assert (result.ending, result.exit_code) == (Ending.EXIT, 137)
    assert result.wall_seconds < 5


def test_disk_full_is_an_error_of_the_provider(open_local: Opener, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (1 << 20))
    sandbox = open_local()
    with pytest.raises(SandboxError) as caught:
        sandbox.put(tmp_path / "big", "/dev/too-big")
    assert caught.value.cause == Cause.ENGINE


# --- network -------------------------------------------------------------------------------------


def test_without_network_there_is_only_loopback(open_local: Opener) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        probe = f"exec 3<>/dev/tcp/127.0.0.1/{port}"
        if not Path("/bin/bash").exists():
            missing_engine("local", "needs bash")
        assert open_local().exec(["bash", "-c", probe]).exit_code == 0
        alone = open_local(task=make_task(network=False))
        assert alone.exec(["bash", "-c", probe]).exit_code != 0
        lines = output(alone, "cat /proc/net/dev").splitlines()[2:]
        assert [line.split(":")[0].strip() for line in lines] == ["lo"]
        assert "127.0.0.1" in output(alone, "cat /proc/net/fib_trie")  # so it is up


# --- images --------------------------------------------------------------------------------------


@pytest.fixture
def task_with(host_folder: Path) -> Callable[[str], Any]:
    context = host_folder / "environment"
    (context / "data").mkdir(parents=True)
    (context / "data" / "input.txt").write_text("input", encoding="utf-8")
    (context / "tool.sh").write_text("#!/bin/sh\necho tool $NAME\n", encoding="utf-8")
    (context / "tool.sh").chmod(0o755)

    def make(lines: str) -> Any:
        (context / "Dockerfile").write_text(f"FROM python:3\n{lines}\n", encoding="utf-8")
        return make_task(image=ImageSource(build_context=context), digest=lines)

    return make


def test_dockerfile_is_honoured(open_local: Opener, local: LocalBackend, task_with: Any) -> None:
    task = task_with(
        "WORKDIR /work-here/sub\nENV NAME=value\nCOPY data ./data\nCOPY tool.sh /usr/local/bin/tool"
    )
    warnings = local.check(task)
    assert len(warnings) == 1
    assert "FROM is ignored" in warnings[0]
    sandbox = open_local(task=task)
    assert output(sandbox, "pwd; cat data/input.txt; echo; /usr/local/bin/tool") == (
        "/work-here/sub\ninput\ntool value\n"
    )
    assert output(sandbox, "ls /usr/local/bin | grep -c . ; stat -c '%u %a' /usr/local/bin/tool")
    shell(sandbox, "echo changed >data/input.txt")
    assert output(open_local(task=task), "cat data/input.txt") == "input"
    assert not Path("/work-here").exists()
    assert not Path("/usr/local/bin/tool").exists()


def test_links_to_open_files_of_the_harness_lead_nowhere(
    open_local: Opener, tmp_path: Path
) -> None:
    """The sandbox's /tmp is its own, so nothing in `tmp_path` can be seen from inside."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
    (inside / "file").write_text("fine", encoding="utf-8")
    (outside / "secret").write_text("of the host", encoding="utf-8")
    (outside / "secret").chmod(0o644)
    sandbox = open_local()
    reached = []
    for number in range(24):
        for process in ("self", "1", "thread-self"):
            link = f"/link-{process}-{number}"
            output(sandbox, f"ln -s /proc/{process}/fd/{number}/../outside {link}")
            target = inside / f"got-{process}-{number}"
            with suppress(FileNotFoundError, SandboxError):
                sandbox.get(f"{link}/secret", target)
            with suppress(FileNotFoundError, SandboxError):
                reached.append(sandbox.read(f"{link}/secret", max_bytes=100))
            with suppress(SandboxError):
                sandbox.put(inside, f"{link}/planted/folder")
            with suppress(SandboxError):
                sandbox.make_folder(f"{link}/made")
    assert set(reached) <= {None}
    assert [path.name for path in inside.iterdir()] == ["file"]
    assert [path.name for path in outside.iterdir()] == ["secret"]


def test_copies_into_own_folders_and_through_links(open_local: Opener, task_with: Any) -> None:
    sandbox = open_local(task=task_with("WORKDIR /app\nCOPY . .\nCOPY tool.sh /bin/tool"))
    assert "data" in output(sandbox, "ls /app").split()
    assert output(sandbox, "/bin/tool; ls /bin/sh") == "tool\n/bin/sh\n"


def test_same_content_is_prepared_once(local: LocalBackend, task_with: Any) -> None:
    said: list[str] = []
    images = [local.prepare(task_with("COPY data /data"), said.append) for _ in range(2)]
    assert images[0] == images[1]
    assert images[0].digest is not None
    assert images[0].digest.startswith("sha256:")
    assert len(said) <= 1
    assert local.prepare(make_task(), said.append).digest is None


def test_run_is_refused_before_anything_starts(local: LocalBackend, task_with: Any) -> None:
    task = task_with("RUN apt-get install -y gcc")
    for ask in (lambda: local.check(task), lambda: local.prepare(task, print)):
        with pytest.raises(UsageError, match=r"Dockerfile:2: RUN cannot be honoured"):
            ask()


def test_named_image_is_a_warning(local: LocalBackend) -> None:
    (warning,) = local.check(make_task())
    assert "docker_image is ignored" in warning
    assert local.check(make_task(image=ImageSource())) == []


# --- facts ---------------------------------------------------------------------------------------


def test_info(local: LocalBackend) -> None:
    info = local.info
    release = os.uname().release
    assert info.engine == "local linux " + ".".join(release.split("-")[0].split(".")[:2])
    assert info.enforcement in ("hard limit", "watchdog")
    assert info.capacity.memory_bytes <= psutil.virtual_memory().total
    assert "not a security boundary" in info.isolation
    other = LocalBackend(use_cgroups=False)
    assert info.engine_id == other.info.engine_id
    other.close()


def test_own_kill_is_told_from_one_at_a_ceiling_above(open_local: Opener) -> None:
    """The neighbour's kill must not be counted here."""
    greedy, idle = open_local(), open_local()
    assert shell(greedy, "x=a; while :; do x=$x$x; done").exit_code == 137
    assert greedy.counters(expect_kill=True).oom_kills == 1
    assert greedy.counters().limit_reached is True
    assert idle.counters().oom_kills == 0
    assert idle.counters().limit_reached is False
