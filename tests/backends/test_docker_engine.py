"""What only the docker backend does, on a real engine."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from sandboxes import BUSYBOX, allocation, make_task, request_for

from pytest_infranoise.backends.base import LABEL, OWNER_LABEL, TRIAL_LABEL
from pytest_infranoise.backends.docker import kernel_log
from pytest_infranoise.backends.docker.backend import DockerBackend
from pytest_infranoise.backends.docker.images import IMAGE_LABEL
from pytest_infranoise.backends.docker.sandbox import DockerSandbox
from pytest_infranoise.errors import SandboxError, UsageError
from pytest_infranoise.model.outcome import Cause
from pytest_infranoise.model.task import ImageSource, PreparedImage, Task
from pytest_infranoise.units import MIB

HOG = "x=a; while :; do x=$x$x; done"
Open = Callable[..., DockerSandbox]


@pytest.fixture
def backend(docker_backend: DockerBackend, docker_image: Callable[[str], str]) -> DockerBackend:
    docker_image(BUSYBOX)
    return docker_backend


def inspect(backend: DockerBackend, sandbox: DockerSandbox) -> Any:
    return backend.client.api.inspect_container(sandbox.container_id)


def shell(sandbox: DockerSandbox, script: str, **options: Any) -> Any:
    return sandbox.exec(["sh", "-c", script], **options)


def quiet(line: str) -> None:
    pass


# --- the container -------------------------------------------------------------------------------


def test_what_a_container_holds_of_the_disk_is_known(open_sandbox: Any) -> None:
    sandbox = open_sandbox()
    before = sandbox.held_disk_bytes()
    sandbox.exec(["dd", "if=/dev/zero", "of=/big", "bs=1M", "count=8"])
    assert before is not None
    assert sandbox.held_disk_bytes() >= before + 8 * 1024**2


def test_settings_of_a_capped_container(backend: DockerBackend, open_sandbox: Open) -> None:
    given = allocation(96 * MIB, 0.75, memory_guarantee_bytes=32 * MIB, cpu_guarantee_cores=0.25)
    config = inspect(backend, open_sandbox(given))["HostConfig"]
    assert config["Memory"] == config["MemorySwap"] == 96 * MIB
    assert config["MemoryReservation"] == 32 * MIB
    assert config["NanoCpus"] == 750_000_000
    assert config["CpuShares"] == 256
    assert config["RestartPolicy"]["Name"] in ("", "no")
    assert config["AutoRemove"] is False
    assert not config.get("Init")


def test_settings_of_an_uncapped_container(backend: DockerBackend, open_sandbox: Open) -> None:
    given = allocation(None, None, memory_guarantee_bytes=32 * MIB, cpu_guarantee_cores=0.25)
    config = inspect(backend, open_sandbox(given))["HostConfig"]
    assert config["Memory"] == config["MemorySwap"] == config["NanoCpus"] == 0
    assert config["MemoryReservation"] == 32 * MIB
    assert config["CpuShares"] == 256


def test_labels_and_name(backend: DockerBackend, open_sandbox: Open, study: str) -> None:
    found = inspect(backend, open_sandbox(trial="a task/::3x-s1", owner="me"))
    labels = found["Config"]["Labels"]
    assert (labels[LABEL], labels[TRIAL_LABEL], labels[OWNER_LABEL]) == (
        study,
        "a task/::3x-s1",
        "me",
    )
    assert "infranoise" in found["Name"]


def test_network_is_there_unless_the_task_says_no(open_sandbox: Open) -> None:
    look = "ls /sys/class/net"
    assert "eth0" in shell(open_sandbox(), look).output.split()
    assert shell(open_sandbox(task=make_task(network=False)), look).output.split() == ["lo"]


def test_flag_stays_false_while_the_container_lives(
    backend: DockerBackend, open_sandbox: Open
) -> None:
    sandbox = open_sandbox()
    assert shell(sandbox, HOG).exit_code == 137
    state = inspect(backend, sandbox)["State"]
    assert (state["Running"], state["OOMKilled"]) == (True, False)
    assert sandbox.counters(expect_kill=True).oom_kills == 1


def test_holder_ignores_the_signals_that_end_programs(open_sandbox: Open) -> None:
    sandbox = open_sandbox()
    assert shell(sandbox, "kill -TERM 1; kill -INT 1; kill -HUP 1; kill -KILL 1").exit_code == 0
    time.sleep(0.2)
    assert sandbox.is_alive()


def test_healthcheck_and_entrypoint_of_the_image_do_not_run(
    backend: DockerBackend, open_sandbox: Open, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text(
        f'FROM {BUSYBOX}\nENTRYPOINT ["false"]\nCMD ["x"]\nUSER nobody\nENV A=image B=image\n'
        "WORKDIR /srv\nHEALTHCHECK --interval=1s CMD touch /probed\nVOLUME /volume\n"
    )
    task = make_task(name="entry", image=ImageSource(build_context=tmp_path))
    sandbox = open_sandbox(task=task, environment={"B": "request"})
    try:
        result = shell(sandbox, 'id -u; pwd; echo "$A $B"; sleep 1.5; ls /')
        assert result.output.splitlines()[:3] == ["0", "/srv", "image request"]
        assert "probed" not in result.output
        volumes = [mount["Name"] for mount in inspect(backend, sandbox)["Mounts"]]
        sandbox.close()
        left = {volume.name for volume in backend.client.volumes.list()}
        assert volumes
        assert not left & set(volumes)
    finally:
        sandbox.close()
        backend.client.images.remove(backend.prepare(task, quiet).reference, force=True)


# --- counters ------------------------------------------------------------------------------------


def test_counters_are_read_on_this_host_where_the_engine_runs_here(open_sandbox: Open) -> None:
    source = open_sandbox().counters().source
    assert source is not None
    assert "inside" not in source


@pytest.fixture
def inside(backend: DockerBackend, study: str) -> Iterator[DockerSandbox]:
    """A sandbox as on a remote engine: nothing of its cgroup can be seen from here."""
    remote = DockerBackend(counters_on_host=False)
    with remote.open(request_for(remote, study, allocation(cpu_limit_cores=0.5))) as sandbox:
        yield sandbox
    remote.close()


def test_counters_inside_the_container(inside: DockerSandbox) -> None:
    before = inside.counters()
    assert before.source is not None
    assert before.source.endswith("inside the container")
    assert (before.oom_kills, before.limit_reached) == (0, False)
    shell(inside, f"for i in 1 2; do ({HOG}); done; exit 0")
    after = inside.counters(expect_kill=True)
    assert (after.oom_kills, after.limit_reached) == (2, True)
    assert after.cpu_seconds is not None
    assert before.cpu_seconds is not None
    assert after.cpu_seconds > before.cpu_seconds
    assert after.cpu_periods is not None
    assert after.cpu_periods > 0


def test_both_readers_agree(backend: DockerBackend, open_sandbox: Open) -> None:
    sandbox = open_sandbox()
    shell(sandbox, HOG)
    remote = DockerSandbox(
        backend.client, sandbox.container_id, allocation(), counters_on_host=False
    )
    here, there = sandbox.counters(expect_kill=True), remote.counters()
    for name in ("oom_kills", "limit_reached", "limit_hits", "memory_peak_bytes"):
        assert getattr(here, name) == getattr(there, name)
    limits = dict(sandbox.effective_limits().values)
    del limits["memory_ceiling_bytes"]  # what stands above cannot be seen from inside
    assert limits == dict(remote.effective_limits().values)


def test_stranger_with_the_same_process_number_is_not_read() -> None:
    from pytest_infranoise.backends.docker.counters import find_on_host

    assert find_on_host(os.getpid(), "0123456789ab" * 5) is None
    assert find_on_host(0, "x") is None
    assert find_on_host(2**22 + 1, "x") is None


@pytest.mark.parametrize("has_log", [True, False])
def test_log_and_flag_are_the_last_hints_when_the_container_has_died(
    backend: DockerBackend,
    open_sandbox: Open,
    has_log: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not has_log:
        monkeypatch.setattr(kernel_log, "KMSG", "/nowhere")
    sandbox = open_sandbox()
    shell(sandbox, f"({HOG}); exit 0")  # so that the flag is set at the end
    time.sleep(3.5)  # sooner, the two would be taken for one
    backend.client.api.kill(sandbox.container_id)
    _wait_until_dead(sandbox)
    counters = sandbox.counters(expect_kill=True)
    assert counters.source == ("kernel log" if has_log else "docker State.OOMKilled")
    assert (counters.oom_kills, counters.took_holder) == (1, False)
    with pytest.raises(SandboxError) as caught:
        shell(sandbox, "true")
    assert caught.value.cause == Cause.SANDBOX_LOST


@pytest.mark.parametrize("has_log", [True, False])
def test_kill_that_takes_the_container_along(
    backend: DockerBackend,
    open_sandbox: Open,
    has_log: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not has_log:
        monkeypatch.setattr(kernel_log, "KMSG", "/nowhere")
    sandbox = open_sandbox()
    pid = inspect(backend, sandbox)["State"]["Pid"]
    Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
    with pytest.raises(SandboxError) as caught:  # each is too small to be chosen before it
        shell(sandbox, "for i in 1 2 3 4 5 6; do dd if=/dev/zero of=/dev/null bs=8M & done; wait")
    assert caught.value.cause == Cause.SANDBOX_LOST
    counters = sandbox.counters(expect_kill=True)
    assert counters.oom_kills in (1, 2)  # another may die before the first one's memory is free
    assert counters.took_holder is True
    assert counters.limit_reached is True


def test_restarted_container_is_another_one(backend: DockerBackend, open_sandbox: Open) -> None:
    sandbox = open_sandbox()
    shell(sandbox, f"({HOG}); exit 0")
    assert sandbox.counters(expect_kill=True).oom_kills == 1
    backend.client.api.restart(sandbox.container_id, timeout=0)
    assert sandbox.counters().oom_kills is None  # a new count from 0 says nothing of this trial


def test_death_without_a_kill_leaves_the_count_unknown(
    backend: DockerBackend, open_sandbox: Open
) -> None:
    sandbox = open_sandbox()
    backend.client.api.kill(sandbox.container_id)
    _wait_until_dead(sandbox)
    counters = sandbox.counters(expect_kill=True)
    assert (counters.oom_kills, counters.source) == (None, None)


def test_container_that_dies_under_a_step_is_lost(
    backend: DockerBackend, open_sandbox: Open
) -> None:
    sandbox = open_sandbox()
    killer = threading.Timer(0.5, lambda: backend.client.api.kill(sandbox.container_id))
    killer.start()
    with pytest.raises(SandboxError) as caught:
        shell(sandbox, "tail -f /dev/null", timeout_seconds=20)
    killer.join()
    assert caught.value.cause == Cause.SANDBOX_LOST


def _wait_until_dead(sandbox: DockerSandbox) -> None:
    until = time.monotonic() + 5
    while sandbox.is_alive() and time.monotonic() < until:
        time.sleep(0.05)
    assert not sandbox.is_alive()


# --- steps and files -----------------------------------------------------------------------------


def test_200_mb_of_output_cost_no_memory(open_sandbox: Open) -> None:
    sandbox = open_sandbox()
    before = psutil.Process().memory_info().rss
    result = shell(sandbox, "yes | head -c 200000000")
    assert result.output_bytes == 200_000_000
    assert psutil.Process().memory_info().rss - before < 16 * MIB


def test_full_memory_does_not_keep_us_from_upkeep(open_sandbox: Open, tmp_path: Path) -> None:
    sandbox = open_sandbox()
    assert shell(sandbox, "dd if=/dev/zero of=/dev/shm/f bs=65536 count=800").exit_code == 137
    (tmp_path / "file").write_text("content")
    sandbox.put(tmp_path / "file", "/there")
    assert sandbox.read("/there", max_bytes=100) == b"content"
    sandbox.kill_all()
    assert sandbox.is_alive()


@pytest.mark.parametrize("target", ["relative", "/", "/a/../etc", ""])
def test_put_wants_an_absolute_path(open_sandbox: Open, tmp_path: Path, target: str) -> None:
    with pytest.raises(ValueError, match="not an absolute path"):
        open_sandbox().put(tmp_path, target)


def test_engine_that_goes_away_is_no_result(
    backend: DockerBackend, study: str, tmp_path: Path
) -> None:
    """Through a relay that is cut: the engine itself must stay for the other tests."""
    relay = Relay(tmp_path / "s", backend.endpoint.host.removeprefix("unix://"))
    remote = DockerBackend({"DOCKER_HOST": f"unix://{tmp_path / 's'}"})
    sandbox = remote.open(request_for(remote, study, allocation()))
    try:
        threading.Timer(0.5, relay.cut).start()
        with pytest.raises(SandboxError) as caught:
            shell(sandbox, "tail -f /dev/null", timeout_seconds=20)
        assert caught.value.cause == Cause.ENGINE
        assert not sandbox.is_alive()
        assert sandbox.counters(expect_kill=False).oom_kills == 0  # the kernel is still here
        sandbox.close()  # cannot, and does not raise
    finally:
        assert backend.sweep(study) == 1


class Relay:
    """Passes connections to a socket on, until it is cut."""

    def __init__(self, path: Path, target: str) -> None:
        self._target = target
        self._path = path
        self._open: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._target)
            self._open += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def cut(self) -> None:
        self._path.unlink()
        for end in (self._listener, *self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


# --- opening -------------------------------------------------------------------------------------


def test_missing_image_is_a_failure_of_the_image(backend: DockerBackend, study: str) -> None:
    request = request_for(backend, study, allocation(), image=PreparedImage("no/such:image"))
    with pytest.raises(SandboxError) as caught:
        backend.open(request)
    assert caught.value.cause == Cause.IMAGE


def test_limit_that_the_engine_refuses_leaves_nothing(backend: DockerBackend, study: str) -> None:
    request = request_for(backend, study, allocation(5 * MIB))
    with pytest.raises(SandboxError, match="6") as caught:
        backend.open(request)
    assert caught.value.cause == Cause.SANDBOX_START
    assert backend.sweep(study) == 0


def test_smallest_limits_that_are_promised_hold(backend: DockerBackend, study: str) -> None:
    smallest = allocation(
        backend.info.capacity.minimum_memory_bytes, backend.info.capacity.minimum_cpu_cores
    )
    with backend.open(request_for(backend, study, smallest)) as sandbox:
        values = sandbox.effective_limits().values
    assert values["memory_limit_bytes"] == smallest.memory_limit_bytes
    assert values["cpu_limit_cores"] == pytest.approx(0.01)


def test_image_without_a_shell_fails_at_the_start(
    backend: DockerBackend, study: str, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n")
    task = make_task(name="empty", image=ImageSource(build_context=tmp_path))
    try:
        with pytest.raises(SandboxError) as caught:
            backend.open(request_for(backend, study, allocation(), task=task))
        assert caught.value.cause == Cause.SANDBOX_START
        assert backend.sweep(study) == 0
    finally:
        backend.client.images.remove(backend.prepare(task, quiet).reference)


# --- images --------------------------------------------------------------------------------------


@pytest.fixture
def built(backend: DockerBackend, tmp_path: Path, study: str) -> Iterator[Task]:
    """A task with a build context that no other test has; its image is removed at the end."""
    context = tmp_path / "environment"
    context.mkdir()
    (context / "Dockerfile").write_text(f"FROM {BUSYBOX}\nRUN echo {study} >/built\n")
    yield make_task(name=f"Built {study}", image=ImageSource(build_context=context))
    for image in backend.client.images.list(filters={"label": IMAGE_LABEL}):
        if any(study in tag for tag in image.tags):
            backend.client.images.remove(image.id, force=True)


def test_build(backend: DockerBackend, built: Task, open_sandbox: Open, study: str) -> None:
    lines: list[str] = []
    image = backend.prepare(built, lines.append)
    assert lines == [f"{built.name}: building {image.reference}"]
    assert image.reference.startswith(f"pytest-infranoise/built-{study}:")
    found = backend.client.images.get(image.reference)
    assert found.id == image.digest
    assert IMAGE_LABEL in found.labels
    assert open_sandbox(task=built).read("/built", max_bytes=100) == f"{study}\n".encode()


def test_a_named_image_wins_over_a_dockerfile(backend: DockerBackend, built: Task) -> None:
    both = make_task(image=ImageSource(BUSYBOX, built.image.build_context))
    assert backend.prepare(both, quiet).reference == BUSYBOX


def test_the_user_of_an_image_is_known(backend: DockerBackend, built: Task) -> None:
    assert backend.prepare(built, quiet).user is None
    assert built.image.build_context is not None
    dockerfile = built.image.build_context / "Dockerfile"
    dockerfile.write_text(dockerfile.read_text() + "USER 1234\n")
    assert backend.prepare(built, quiet).user == "1234"


def test_build_happens_once_per_content(backend: DockerBackend, built: Task) -> None:
    first = backend.prepare(built, quiet)
    lines: list[str] = []
    assert backend.prepare(built, lines.append) == first
    assert lines == []
    assert built.image.build_context is not None
    (built.image.build_context / "more").write_text("x")
    assert backend.prepare(built, lines.append).reference != first.reference
    assert lines


_BUILDER = """
import sys
from pathlib import Path
from pytest_infranoise.backends.docker.backend import DockerBackend
from pytest_infranoise.model.resources import ResourceSpec
from pytest_infranoise.model.task import ImageSource, Task
source = ImageSource(build_context=Path(sys.argv[2]))
task = Task(sys.argv[1], "0", ResourceSpec.declared(2**25, None), source)
lines = []
image = DockerBackend().prepare(task, lines.append)
print(image.digest, sum("building" in line for line in lines))
"""


def test_two_processes_build_once(built: Task) -> None:
    context = built.image.build_context
    assert context is not None
    with (context / "Dockerfile").open("a") as file:
        file.write("RUN sleep 1; cat /proc/sys/kernel/random/uuid >/id\n")
    command = [sys.executable, "-c", _BUILDER, built.name, str(context)]
    builders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [builder.communicate(timeout=120)[0].split() for builder in builders]
    assert answers[0][0] == answers[1][0]
    assert sorted(answer[1] for answer in answers) == ["0", "1"]


def test_build_that_fails_is_one_line_with_its_end(backend: DockerBackend, built: Task) -> None:
    context = built.image.build_context
    assert context is not None
    (context / "Dockerfile").write_text(f"FROM {BUSYBOX}\nRUN echo the reason; exit 3\n")
    with pytest.raises(UsageError) as caught:
        backend.prepare(built, quiet)
    message = str(caught.value)
    assert message.startswith(f"{built.name}: cannot build {context / 'Dockerfile'}: ")
    assert "the reason" in message
    assert "returned a non-zero code: 3" in message
    assert "\n" not in message


@pytest.mark.parametrize("step", ["sleep 30", "while :; do echo y; sleep 0.1; done"])
def test_build_that_takes_too_long(backend: DockerBackend, built: Task, step: str) -> None:
    context = built.image.build_context
    assert context is not None
    (context / "Dockerfile").write_text(f"FROM {BUSYBOX}\nRUN {step}\n")
    began = time.monotonic()
    task = make_task(name=built.name, image=built.image, build_timeout_seconds=2.0)
    with pytest.raises(UsageError, match="no end within build_timeout of 2 s"):
        backend.prepare(task, quiet)
    assert time.monotonic() - began < 8


def test_image_that_cannot_be_pulled_is_one_line(backend: DockerBackend) -> None:
    task = make_task(name="far", image=ImageSource(docker_image="127.0.0.1:9/no/such:tag"))
    lines: list[str] = []
    with pytest.raises(
        UsageError, match=r"far: cannot pull 127\.0\.0\.1:9/no/such:tag: "
    ) as caught:
        backend.prepare(task, lines.append)
    assert "\n" not in str(caught.value)
    assert lines[0] == "far: pulling 127.0.0.1:9/no/such:tag"


def test_when_a_dockerfile_beside_a_named_image_is_built(
    backend: DockerBackend, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {BUSYBOX}\nENV MADE=here\n")
    far = make_task(name="far", image=ImageSource("127.0.0.1:9/no/such:tag", tmp_path))
    with pytest.raises(UsageError, match=r"cannot pull .*; --infra-build=missing builds its Docke"):
        backend.prepare(far, quiet)
    built = backend.prepare(far.with_build("missing"), quiet)
    note = "built from its Dockerfile: 127.0.0.1:9/no/such:tag could not be pulled"
    assert built.reference.startswith("pytest-infranoise/far:")
    assert built.notes[-1:] == (note,)
    near = make_task(name="near", image=ImageSource(BUSYBOX, tmp_path))
    assert backend.prepare(near.with_build("missing"), quiet).reference == BUSYBOX
    always = backend.prepare(near.with_build("always"), quiet)
    assert always.reference.startswith("pytest-infranoise/near:")
    assert backend.prepare(make_task().with_build("always"), quiet).reference == BUSYBOX


def test_image_that_is_there_is_not_pulled(backend: DockerBackend) -> None:
    lines: list[str] = []
    image = backend.prepare(make_task(), lines.append)
    assert (image.reference, lines) == (BUSYBOX, [])
    assert image.digest is not None
    assert image.digest.startswith("sha256:")


def test_task_without_an_image_is_refused(backend: DockerBackend, tmp_path: Path) -> None:
    for source, words in (
        (ImageSource(), "names neither"),
        (ImageSource(build_context=tmp_path), "Dockerfile does not exist"),
    ):
        task = make_task(name="bare", image=source)
        for use in (lambda t: backend.check(t), lambda t: backend.prepare(t, quiet)):
            with pytest.raises(UsageError, match=f"bare: .*{words}"):
                use(task)


# --- BuildKit ------------------------------------------------------------------------------------

HEREDOC = f"FROM {BUSYBOX}\nRUN <<EOF\necho hi\nEOF\n"


def fake_docker(folder: Path, script: str) -> None:
    folder.mkdir()
    (folder / "docker").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "docker").chmod(0o755)


@pytest.fixture
def command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put another `docker` command in front of the installed one."""

    def install(script: str) -> None:
        fake_docker(tmp_path / "bin", script)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")

    return install


def test_buildkit_that_is_not_there_is_one_line(
    backend: DockerBackend, built: Task, command_line: Callable[[str], None]
) -> None:
    command_line("exit 1")
    context = built.image.build_context
    assert context is not None
    (context / "Dockerfile").write_text(HEREDOC)
    with pytest.raises(
        UsageError, match=r"here-document after RUN.*only BuildKit builds"
    ) as caught:
        backend.prepare(built, quiet)
    assert "\n" not in str(caught.value)


def test_syntax_line_alone_falls_back_to_the_classic_builder(
    backend: DockerBackend, built: Task, command_line: Callable[[str], None]
) -> None:
    command_line("exit 1")
    context = built.image.build_context
    assert context is not None
    dockerfile = context / "Dockerfile"
    dockerfile.write_text(f"# syntax=docker/dockerfile:1\n{dockerfile.read_text()}")
    assert "syntax" in backend.prepare(built, quiet).notes[0]


def test_buildkit_is_called_on_the_engine_of_the_trials(
    backend: DockerBackend,
    built: Task,
    command_line: Callable[[str], None],
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    command_line(
        f'echo "$DOCKER_BUILDKIT $DOCKER_HOST $*" >>{log}; echo step one; '
        'if [ "$1" = build ]; then echo the reason >&2; exit 7; fi'
    )
    context = built.image.build_context
    assert context is not None
    (context / "Dockerfile").write_text(HEREDOC)
    with pytest.raises(UsageError, match=r"step one.*the reason.*docker build returned 7"):
        backend.prepare(built, quiet)
    version, build = log.read_text().splitlines()
    assert version.endswith("buildx version")
    assert build.startswith(f"1 {backend.endpoint.host} build ")
    assert f"--label {IMAGE_LABEL}=" in build
    assert build.endswith(str(context))


def test_buildkit_that_takes_too_long_is_ended(
    backend: DockerBackend, built: Task, command_line: Callable[[str], None]
) -> None:
    command_line('[ "$1" = buildx ] || sleep 60')
    context = built.image.build_context
    assert context is not None
    (context / "Dockerfile").write_text(HEREDOC)
    task = make_task(name=built.name, image=built.image, build_timeout_seconds=1.0)
    began = time.monotonic()
    with pytest.raises(UsageError, match="no end within build_timeout of 1 s"):
        backend.prepare(task, quiet)
    assert time.monotonic() - began < 10
