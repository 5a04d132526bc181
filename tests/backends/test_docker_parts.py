"""The parts of the docker backend that need no engine."""

import hashlib
import io
import json
import socket
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, NotFound
from hypothesis import given
from hypothesis import strategies as st
from sandboxes import allocation, make_task

from pytest_infranoise.backends.base import Placement, SandboxRequest
from pytest_infranoise.backends.docker import copying
from pytest_infranoise.backends.docker.backend import DockerBackend, container_name, limits
from pytest_infranoise.backends.docker.connection import (
    DEFAULT_SOCKET,
    Connection,
    Endpoint,
    connect,
    endpoints,
)
from pytest_infranoise.backends.docker.context import context_digest, context_files, pack_context
from pytest_infranoise.backends.docker.counters import parse_fetched
from pytest_infranoise.backends.docker.deaths import Holder
from pytest_infranoise.backends.docker.dockerfile import buildkit_feature, has_syntax_line
from pytest_infranoise.backends.docker.execution import code_of_refusal, is_refusal
from pytest_infranoise.backends.docker.failures import is_gone
from pytest_infranoise.backends.docker.images import image_slug
from pytest_infranoise.backends.docker.locks import exclusive
from pytest_infranoise.backends.docker.storage import storage_problem
from pytest_infranoise.backends.docker.stream import ExecStream, FrameReader
from pytest_infranoise.backends.output import OutputTail
from pytest_infranoise.errors import BackendUnavailableError, UsageError
from pytest_infranoise.model.resources import ResourceSpec
from pytest_infranoise.model.task import PreparedImage
from pytest_infranoise.units import MIB

# --- which engine --------------------------------------------------------------------------------


def configured(folder: Path, current: str | None, **contexts: Any) -> dict[str, str]:
    """A docker command line's configuration, as an environment that points to it."""
    if current is not None:
        (folder / "config.json").write_text(json.dumps({"currentContext": current}))
    for name, endpoint in contexts.items():
        meta = folder / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
        meta.mkdir(parents=True)
        content = {"Name": name, "Endpoints": {"docker": endpoint}}
        (meta / "meta.json").write_text(json.dumps(content))
    return {"DOCKER_CONFIG": str(folder)}


def hosts(environment: dict[str, str]) -> list[tuple[str, str]]:
    return [(endpoint.origin, endpoint.host) for endpoint in endpoints(environment)]


def test_engine_default(tmp_path: Path) -> None:
    assert hosts(configured(tmp_path, None)) == [("default socket", DEFAULT_SOCKET)]
    assert hosts(configured(tmp_path, "default")) == [("default socket", DEFAULT_SOCKET)]


def test_engine_of_the_current_context_comes_first(tmp_path: Path) -> None:
    environment = configured(tmp_path, "far", far={"Host": "tcp://far:1"})
    assert hosts(environment) == [
        ("context 'far'", "tcp://far:1"),
        ("default socket", DEFAULT_SOCKET),
    ]


def test_engine_that_the_environment_names_is_the_only_one(tmp_path: Path) -> None:
    environment = configured(
        tmp_path, "far", far={"Host": "tcp://far:1"}, near={"Host": "unix:///near"}
    )
    named = {**environment, "DOCKER_CONTEXT": "near"}
    assert hosts(named) == [("context 'near'", "unix:///near")]
    assert hosts({**named, "DOCKER_HOST": "tcp://host:2"}) == [("DOCKER_HOST", "tcp://host:2")]
    assert hosts({**environment, "DOCKER_CONTEXT": "default"}) == [
        ("default socket", DEFAULT_SOCKET)
    ]


def test_certificates(tmp_path: Path) -> None:
    environment = configured(tmp_path, "far", far={"Host": "tcp://far:1", "SkipTLSVerify": True})
    folder = tmp_path / "contexts" / "tls" / hashlib.sha256(b"far").hexdigest() / "docker"
    folder.mkdir(parents=True)
    endpoint = next(endpoints(environment))
    assert (endpoint.certificates, endpoint.verify) == (folder, False)
    by_host = {"DOCKER_HOST": "tcp://x:1", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/certs"}
    endpoint = next(endpoints(by_host))
    assert (endpoint.certificates, endpoint.verify) == (Path("/certs"), True)
    endpoint = next(endpoints({"DOCKER_HOST": "tcp://x:1", "DOCKER_TLS_VERIFY": ""}))
    assert endpoint.certificates is None


@pytest.mark.parametrize("content", ["", "[]", '{"Endpoints": {}}', '{"Endpoints": null}'])
def test_broken_context_is_one_line(tmp_path: Path, content: str) -> None:
    environment = configured(tmp_path, "far", far={})
    next(tmp_path.rglob("meta.json")).write_text(content)
    with pytest.raises(UsageError, match=r"docker context 'far' cannot be read from .*meta\.json"):
        list(endpoints(environment))
    with pytest.raises(UsageError, match="docker context 'nowhere'"):
        list(endpoints({**environment, "DOCKER_CONTEXT": "nowhere"}))


@pytest.mark.parametrize("content", ["", "[]", "{", '{"currentContext": 7}'])
def test_broken_configuration_counts_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    assert hosts({"DOCKER_CONFIG": str(tmp_path)}) == [("default socket", DEFAULT_SOCKET)]


@pytest.mark.parametrize(
    "host",
    [
        "unix:///nowhere/docker.sock",
        "tcp://127.0.0.1:9",
        "nonsense://x",
        "http+unix://%zz",
        "tcp://",
    ],
)
def test_unreachable_host_is_one_clear_line(host: str) -> None:
    with pytest.raises(BackendUnavailableError) as caught:
        connect({"DOCKER_HOST": host})
    message = str(caught.value)
    assert message.startswith(f"no Docker Engine answers; tried DOCKER_HOST ({host})")
    assert "\n" not in message
    assert "Traceback" not in message


def test_all_that_was_tried_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "pytest_infranoise.backends.docker.connection.DEFAULT_SOCKET", "unix:///none.sock"
    )
    environment = configured(tmp_path, "far", far={"Host": "unix:///far.sock"})
    with pytest.raises(BackendUnavailableError, match=r"'far'.*far\.sock.*default socket.*none"):
        connect(environment)


def test_engine_that_hangs_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(BackendUnavailableError, match="tried DOCKER_HOST"):
            connect({"DOCKER_HOST": f"unix://{path}"})


# --- what the engine says of itself ------------------------------------------------------------

FACTS = {
    "ServerVersion": "27.1",
    "OSType": "linux",
    "ID": "abc",
    "CgroupVersion": "2",
    "MemTotal": 8 * 1024 * MIB,
    "NCPU": 4,
    "MemoryLimit": True,
    "SwapLimit": True,
    "CpuCfsQuota": True,
}


class _Client:
    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts = facts

    def info(self) -> dict[str, Any]:
        return self._facts


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that opens the backend on an engine with the given peculiarities."""

    def open_on(**changes: Any) -> DockerBackend:
        client: Any = _Client({**FACTS, **changes})
        found = Connection(client, Endpoint("unix:///x", "default socket"), ("a note",))
        monkeypatch.setattr(
            "pytest_infranoise.backends.docker.backend.connect", lambda environment: found
        )
        return DockerBackend({})

    return open_on


def test_engine_info(engine: Any) -> None:
    info = engine().info
    assert (info.engine, info.engine_id, info.cgroup_version) == ("docker 27.1", "docker:abc", 2)
    assert (info.capacity.memory_bytes, info.capacity.cpu_cores) == (8 * 1024 * MIB, 4.0)
    assert info.capacity.minimum_memory_bytes == 12 * MIB
    assert engine(CgroupVersion="1").info.capacity.minimum_memory_bytes == 6 * MIB
    assert info.notes[0] == "a note"
    assert info.notes[1].startswith("no shared memory ceiling over all trials: ")
    assert not info.has_ceiling
    json.dumps(dict(info.details))


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"MemoryLimit": False}, "cannot limit memory"), ({"OSType": "windows"}, "no Linux")],
)
def test_engine_that_cannot_do_it_is_unavailable(
    engine: Any, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(BackendUnavailableError, match=words):
        engine(**changes)


def test_engine_that_cannot_limit_swap_is_noted(engine: Any) -> None:
    assert "swap may be a way out" in engine(SwapLimit=False).info.notes[1]


def test_engine_that_cannot_limit_cpu_refuses_tasks_that_declare_it(engine: Any) -> None:
    backend = engine(CpuCfsQuota=False)
    with_cpus = make_task(name="quick", spec=ResourceSpec.declared(MIB, 0.5))
    assert backend.check(make_task()) == ()
    with pytest.raises(UsageError, match="quick: declares cpus"):
        backend.check(with_cpus)
    assert engine().check(with_cpus) == ()


# --- settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_allocation", "expected"),
    [
        (
            allocation(96 * MIB, 0.75, memory_guarantee_bytes=32 * MIB, cpu_guarantee_cores=0.25),
            {
                "mem_limit": 96 * MIB,
                "memswap_limit": 96 * MIB,
                "mem_reservation": 32 * MIB,
                "nano_cpus": 750_000_000,
                "cpu_shares": 256,
            },
        ),
        (
            allocation(None, None, memory_guarantee_bytes=32 * MIB, cpu_guarantee_cores=1.0),
            {"mem_reservation": 32 * MIB, "cpu_shares": 1024},
        ),
        (  # below 1x the reservation is lowered to the threshold
            allocation(16 * MIB, memory_guarantee_bytes=32 * MIB),
            {"mem_limit": 16 * MIB, "memswap_limit": 16 * MIB, "mem_reservation": 16 * MIB},
        ),
        (
            allocation(8 * MIB, memory_guarantee_bytes=MIB),
            {"mem_limit": 8 * MIB, "memswap_limit": 8 * MIB},
        ),
        (
            allocation(None, 1 / 3, memory_guarantee_bytes=MIB, cpu_guarantee_cores=0.0001),
            {"nano_cpus": 333_333_333, "cpu_shares": 2},
        ),
        (
            allocation(None, memory_guarantee_bytes=MIB, cpu_guarantee_cores=1000),
            {"cpu_shares": 262144},
        ),
    ],
)
def test_limits_of_an_allocation(given_allocation: Any, expected: dict[str, int]) -> None:
    found = limits(given_allocation)
    assert found == expected
    assert all(type(value) is int for value in found.values())


@given(st.text(max_size=300))
def test_container_names_are_valid_and_ours(trial: str) -> None:
    request = SandboxRequest("s", trial, "o", make_task(), PreparedImage("x"), allocation())
    name = container_name(request)
    assert name.startswith("infranoise-")
    assert len(name) < 120
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
    assert name != container_name(request)


@given(st.text(max_size=300))
def test_image_slugs_are_valid_components(name: str) -> None:
    slug = image_slug(name)
    assert slug
    assert len(slug) <= 60
    assert set(slug) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert slug.strip("-") == slug


# --- the stream ----------------------------------------------------------------------------------

pieces = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=300)), max_size=10)


@given(frames=pieces, cuts=st.lists(st.integers(1, 50), max_size=200))
def test_frames_survive_any_cutting(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    wire = b"".join(
        bytes([stream, 0, 0, 0]) + len(content).to_bytes(4, "big") + content
        for stream, content in frames
    )
    got = {1: b"", 2: b""}

    def sink(stream: int, content: bytes) -> None:
        got[stream] += content

    reader = FrameReader(sink)
    for cut in cuts:
        reader.feed(wire[:cut])
        wire = wire[cut:]
    reader.feed(wire)
    for number in (1, 2):
        assert got[number] == b"".join(content for stream, content in frames if stream == number)


class _Response:
    """What the HTTP client leaves behind once it has read the header of an upgrade."""

    def __init__(self, buffered: Any) -> None:
        self.raw = self
        self._fp = self
        self.fp = buffered

    def close(self) -> None:
        self.fp.close()


def test_output_that_came_with_the_header_is_not_lost() -> None:
    ours, engines = socket.socketpair()
    with engines:
        engines.sendall(b"HTTP/1.1 101 UPGRADED\r\nearly")
        buffered = ours.makefile("rb")
        buffered.readline()  # reads ahead of the line's end
        buffered.raw._response = _Response(buffered)  # type: ignore[attr-defined]
        stream = ExecStream(buffered.raw)  # type: ignore[attr-defined]
        assert stream.read(1.0) == b"early"
        assert stream.read(0.0) is None
        engines.sendall(b"late")
        assert stream.read(1.0) == b"late"
        engines.close()
        assert stream.read(1.0) == b""
        stream.close()
    ours.close()


def test_stream_without_early_output_does_not_wait() -> None:
    ours, engines = socket.socketpair()
    with ours, engines:
        buffered = ours.makefile("rb")
        buffered.raw._response = _Response(buffered)  # type: ignore[attr-defined]
        stream = ExecStream(buffered.raw)  # type: ignore[attr-defined]
        assert stream.read(0.05) is None
        stream.close()


@given(
    chunks=st.lists(st.binary(max_size=50), max_size=60),
    capacity=st.integers(min_value=1, max_value=40),
)
def test_tail_keeps_the_end(chunks: list[bytes], capacity: int) -> None:
    tail = OutputTail(capacity)
    for chunk in chunks:
        tail.add(chunk)
    everything = b"".join(chunks)
    assert tail.content == everything[-capacity:]
    assert tail.total_bytes == len(everything)
    assert tail.is_truncated is (len(everything) > capacity)


@given(text=st.text(min_size=1, max_size=40), capacity=st.integers(1, 60))
def test_tail_of_valid_text_is_its_end(text: str, capacity: int) -> None:
    tail = OutputTail(capacity)
    tail.add(text.encode())
    assert text.endswith(tail.text)


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        ('OCI runtime exec failed: exec failed: chdir to cwd ("/x") failed: no such file', True),
        ("unable to find user nosuch: no matching entries in passwd file", True),
        ("No such container: x", False),
        ("", False),
    ],
)
def test_refusals_of_a_command_are_not_failures_of_the_engine(message: str, refused: bool) -> None:
    assert is_refusal(message) is refused


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (
            "OCI runtime exec failed: read init-p: connection reset by peer (possibly OOM-killed)",
            137,
        ),
        ("OCI runtime exec failed: write init-p: broken pipe: unknown", 137),
        ("OCI runtime exec failed: chdir to cwd failed: no such file or directory", 126),
    ],
)
def test_command_that_died_before_it_began_was_killed(message: str, code: int) -> None:
    assert is_refusal(message)
    assert code_of_refusal(message) == code


# --- archives ------------------------------------------------------------------------------------


def archive_of(*members: tuple[str, bytes | None, dict[str, Any]]) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content, changes in members:
            info = tarfile.TarInfo(name)
            info.size = len(content or b"")
            for key, value in changes.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content or b""))
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize("name", ["../evil", "out/../../evil", "/evil", "out/../.."])
def test_archive_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    target = tmp_path / "target"
    with pytest.raises(ValueError, match="leads out"):
        copying.unpack(archive_of((name, b"x", {})), target)
    assert not (tmp_path / "evil").exists()


def test_links_and_devices_are_left_out(tmp_path: Path) -> None:
    archive = archive_of(
        ("out", None, {"type": tarfile.DIRTYPE}),
        ("out/link", None, {"type": tarfile.SYMTYPE, "linkname": "/"}),
        ("out/link/evil", b"through the link", {}),
        ("out/device", None, {"type": tarfile.CHRTYPE}),
        ("out/pipe", None, {"type": tarfile.FIFOTYPE}),
        ("out/file", b"content", {"mode": 0o4755}),
        ("out/hard", None, {"type": tarfile.LNKTYPE, "linkname": "out/file"}),
        ("out/foreign", None, {"type": tarfile.LNKTYPE, "linkname": "elsewhere"}),
    )
    copying.unpack(archive, tmp_path / "target")
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert found == ["target", "target/file", "target/hard", "target/link", "target/link/evil"]
    assert (tmp_path / "target/hard").read_bytes() == b"content"
    assert (tmp_path / "target/file").stat().st_mode & 0o7777 == 0o755
    assert not (tmp_path / "target/link").is_symlink()


def test_pack_and_unpack_agree(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep/file").write_bytes(b"x" * 100)
    (source / "empty").mkdir()
    with copying.temporary_archive() as archive:
        packing = copying.Packing(archive)
        packing.add(Placement("/to/here", source), wipes=True)
        packing.finish()
        with tarfile.open(fileobj=archive) as tar:
            assert [(m.name, m.isdir(), m.uid, m.gid) for m in tar] == [
                ("to/here", False, 0, 0),  # what is there makes room for a file
                ("to/here", True, 0, 0),
                ("to/here/deep", True, 0, 0),
                ("to/here/deep/file", False, 0, 0),
                ("to/here/empty", True, 0, 0),
            ]


# --- Dockerfiles ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("FROM x\nRUN echo hi\nCOPY a b\n", None),
        ("# syntax=docker/dockerfile:1\nFROM x\n", None),
        ("FROM x\nRUN --mount=type=cache,target=/c make\n", "RUN --mount"),
        ("FROM x\nrun  --network=none make\n", "RUN --network"),
        ("FROM x\nRUN \\\n  # comment\n  --mount=type=bind make\n", "RUN --mount"),
        ("FROM x\nRUN tool --mount=x\n", None),
        ("FROM x\nRUN <<EOF\necho hi\nEOF\n", "a here-document after RUN"),
        ("FROM x\nCOPY <<-'EOF' /file\nhi\nEOF\n", "a here-document after COPY"),
        ('FROM x\nRUN bash -c "cat <<< word"\n', None),
        ("FROM x\nRUN echo $((1<<4))\n", None),
        ("FROM x\nCOPY --chmod=755 a b\n", "COPY --chmod"),
        ("FROM x\nCOPY --chown=1:1 --link a b\n", "COPY --link"),
        ("FROM x\nCOPY --from=y --chown=1:1 a b\n", None),
        ("FROM x\nADD --checksum=sha256:0 u b\n", "ADD --checksum"),
        ("FROM --platform=$BUILDPLATFORM x\n", "$BUILDPLATFORM"),
        ("# escape=`\nFROM x\nRUN `\n --mount=x make\n", "RUN --mount"),
        ("# RUN --mount=x\nFROM x\n", None),
        ("", None),
    ],
)
def test_what_only_buildkit_builds(text: str, feature: str | None) -> None:
    assert buildkit_feature(text) == feature


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# syntax=docker/dockerfile:1\nFROM x", True),
        ("#SYNTAX = x\nFROM x", True),
        ("# escape=`\n# syntax=x\nFROM x", True),
        ("FROM x\n# syntax=x", False),
        ("# a comment\n# syntax=x\nFROM x", False),
    ],
)
def test_syntax_line_counts_only_at_the_top(text: str, found: bool) -> None:
    assert has_syntax_line(text) is found


@pytest.fixture
def context(tmp_path: Path) -> Path:
    folder = tmp_path / "environment"
    (folder / "data").mkdir(parents=True)
    (folder / "Dockerfile").write_text("FROM scratch\n")
    (folder / "data/keep").write_text("1")
    (folder / "data/drop.log").write_text("2")
    (folder / ".dockerignore").write_text("# comment\n**/*.log\nDockerfile\n.dockerignore\n")
    return folder


def test_context_without_what_is_ignored(context: Path) -> None:
    assert set(context_files(context)) == {"Dockerfile", ".dockerignore", "data", "data/keep"}
    with pack_context(context) as archive, tarfile.open(fileobj=archive) as tar:
        assert "data/drop.log" not in tar.getnames()
        assert "data/keep" in tar.getnames()


def test_context_digest_follows_the_content(context: Path) -> None:
    seen = {context_digest(context)}
    (context / "data/drop.log").write_text("changed")
    assert context_digest(context) in seen
    (context / "data/keep").touch()
    assert context_digest(context) in seen
    for change in (
        lambda: (context / "data/keep").write_text("changed"),
        lambda: (context / "data/keep").chmod(0o755),
        lambda: (context / "data/keep").rename(context / "data/kept"),
        lambda: (context / "data/link").symlink_to("kept"),
        lambda: (context / "empty").mkdir(),
        lambda: (context / "Dockerfile").write_text("FROM other\n"),
    ):
        change()
        assert context_digest(context) not in seen
        seen.add(context_digest(context))


# --- locks ---------------------------------------------------------------------------------------

_WORKER = """
import sys, time
from pathlib import Path
from pytest_infranoise.backends.docker.locks import exclusive
log = Path(sys.argv[2])
for _ in range(20):
    with exclusive(sys.argv[1]):
        with log.open("a") as file:
            file.write("in\\n"); file.flush(); time.sleep(0.002); file.write("out\\n")
"""


def test_lock_holds_across_processes_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-c", _WORKER, "lock", str(tmp_path / "log")]
    workers = [subprocess.Popen(command) for _ in range(3)]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert (tmp_path / "log").read_text() == "in\nout\n" * 60
    assert list((tmp_path / "tmp").iterdir()) == []


def test_lock_holds_across_threads() -> None:
    inside: list[int] = []
    seen: list[int] = []

    def work() -> None:
        with exclusive("test-threads"):
            inside.append(1)
            time.sleep(0.002)
            seen.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 8


# --- files fetched out of a container ------------------------------------------------------------


def test_fetched_files() -> None:
    one = parse_fetched(
        "==> memory/memory.oom_control\nunder_oom 0\noom_kill 3\n==> cpu/cpu.stat\nx 1\n"
    )
    assert one is not None
    assert (one.version, one.memory("memory.oom_control")) == (1, "under_oom 0\noom_kill 3")
    assert one.cpu("cpu.stat") == "x 1"
    assert one.cpuacct("cpuacct.usage") is None
    two = parse_fetched("==> ./cgroup.controllers\ncpu memory\n==> ./memory.events\noom_kill 1\n")
    assert two is not None
    assert (two.version, two.memory_subtree("memory.events")) == (2, ["oom_kill 1"])
    assert parse_fetched("") is None
    assert parse_fetched("==> ./cgroup.controllers\ncpu pids\n") is None


# --- what an engine's error says of the container ------------------------------------------------


@pytest.mark.parametrize(
    ("status", "message", "gone"),
    [
        (404, "No such container: abc", True),
        (409, "Container abc is not running", True),
        (409, "removal of container abc is already in progress", True),
        (409, "Container abc is paused, unpause the container before exec", False),
        (500, "Container abc is not running: Exited (137) Less than a second ago", True),
        (500, "no space left on device", False),
    ],
)
def test_what_says_that_a_container_is_gone(status: int, message: str, gone: bool) -> None:
    response = SimpleNamespace(status_code=status, reason="", url="")
    kind = NotFound if status == 404 else APIError
    assert is_gone(kind(message, response=response, explanation=message)) is gone
    assert not is_gone(ValueError(message))


def test_a_holder_s_end_is_seen_on_its_own_host_only() -> None:
    with subprocess.Popen(["sleep", "30"]) as process:
        holder = Holder(process.pid, is_here=True)
        assert not holder.is_ending()
        process.kill()
        while not holder.is_ending():  # a zombie until it is waited for
            time.sleep(0.001)
        assert not Holder(process.pid, is_here=False).is_ending()
    assert holder.is_ending()


# --- disk space ----------------------------------------------------------------------------------


def storage_client(refusal: str | None) -> Any:
    """An engine with one image that accepts a disk limit, or refuses it in these words."""

    def create(image: str, **_: Any) -> dict[str, str]:
        if refusal is not None:
            raise APIError(refusal, explanation=refusal)
        return {"Id": "probe"}

    api = SimpleNamespace(
        images=lambda **_: ["sha256:1"],
        create_host_config=lambda **given: given,
        create_container=create,
        remove_container=lambda *_, **__: None,
    )
    return SimpleNamespace(api=api)


@pytest.mark.parametrize(
    ("facts", "refusal", "problem"),
    [
        ({}, None, None),
        ({"DriverStatus": [["Backing Filesystem", "xfs"]]}, None, None),
        ({}, "only over xfs\nwith pquota", "only over xfs with pquota"),
        (
            {"DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]},
            None,
            "containerd's snapshotters have no limits",
        ),
    ],
)
def test_whether_disk_space_can_be_limited_is_asked(
    facts: dict[str, Any], refusal: str | None, problem: str | None
) -> None:
    assert storage_problem(storage_client(refusal), facts) == problem
