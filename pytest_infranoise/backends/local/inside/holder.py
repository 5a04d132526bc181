"""The first process of a local sandbox: makes the view, runs steps, reaps, and dies with its owner.

Two processes result: a keeper outside, which waits and takes the sandbox along when the owner ends,
and the holder, process 1 of the sandbox's PID namespace, whose end is the end of everything in it.
The holder stays outside the trial's cgroups, so no kill there can hit it.
"""

import array
import contextlib
import fcntl
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from . import confine, files, mounting, step, wire
from .syscalls import (
    CLONE_NEWNET,
    CLONE_NEWUSER,
    PR_SET_DUMPABLE,
    PR_SET_PDEATHSIG,
    prctl,
    unshare,
)

_READ_BYTES = 1 << 16
_DRAIN_BYTES = 1 << 20  # most that is still read once a step has ended: a pipe's largest content
_MAX_DESCRIPTORS = 4


class Step:
    """A running command: who waits for it, and the end of what it prints."""

    def __init__(self, connection: socket.socket, pipe: int, tail_bytes: int) -> None:
        self.connection = connection
        self.pipe = pipe
        self.tail_bytes = tail_bytes
        self.tail = bytearray()
        self.total = 0

    def read(self) -> int:
        """Take what the pipe holds; return how much, 0 at its end, -1 if nothing is there."""
        try:
            part = os.read(self.pipe, _READ_BYTES)
        except BlockingIOError:
            return -1
        self.total += len(part)
        self.tail += part
        if len(self.tail) > 2 * self.tail_bytes:
            del self.tail[: -self.tail_bytes]
        return len(part)

    def result(self, exit_code: int) -> dict[str, Any]:
        """Return what the owner is told."""
        tail = bytes(self.tail[-self.tail_bytes :])
        return {"exit_code": exit_code, "output": tail, "output_bytes": self.total}


class Holder:
    """The loop of process 1: requests, output, the dead."""

    def __init__(self, lifeline: socket.socket, cgroup_files: list[int]) -> None:
        self._lifeline = lifeline
        self._cgroup_files = cgroup_files
        self._poll = select.poll()
        self._running: dict[int, Step] = {}
        self._pipes: dict[int, Step] = {}
        self._waiting_for_end: list[socket.socket] = []
        self._deaths, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for source in (lifeline.fileno(), self._deaths):
            self._poll.register(source, select.POLLIN)

    def serve(self) -> None:
        """Work until the owner's end of the lifeline closes."""
        while True:
            for source, _ in self._poll.poll():
                if source == self._lifeline.fileno():
                    if not self._accept():
                        return
                elif source == self._deaths:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._deaths, 4096)
                    self._reap()
                else:
                    self._take_output(self._pipes[source])

    def _accept(self) -> bool:
        data, descriptors = _receive_descriptors(self._lifeline)
        if not data:
            return False
        connection = socket.socket(fileno=descriptors[0])
        request = wire.receive(connection)
        if request is None:
            connection.close()
        elif request["kind"] == "exec":
            self._start(connection, request)
        elif request["kind"] == "kill":
            self._kill(connection)
        else:
            self._copy(connection, request, descriptors[1:])
        return True

    # --- steps -----------------------------------------------------------------------------------

    def _start(self, connection: socket.socket, request: Mapping[str, Any]) -> None:
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(read_end, False)

        def work() -> NoReturn:
            step.become(request, write_end, self._cgroup_files)

        pid = _fork(work, connection)
        os.close(write_end)
        item = Step(connection, read_end, request["tail_bytes"])
        self._running[pid] = item
        self._pipes[read_end] = item
        self._poll.register(read_end, select.POLLIN)

    def _take_output(self, item: Step) -> None:
        if item.read() == 0:
            self._poll.unregister(item.pipe)
            del self._pipes[item.pipe]
            os.close(item.pipe)

    def _finish(self, item: Step, status: int) -> None:
        """Answer for an ended step. Its pipe is read on, for children that it left behind."""
        drained = 0
        while item.pipe in self._pipes and drained < _DRAIN_BYTES and (size := item.read()) > 0:
            drained += size
        code = os.waitstatus_to_exitcode(status)
        _answer(item.connection, item.result(code if code >= 0 else 128 - code))

    # --- the dead --------------------------------------------------------------------------------

    def _kill(self, connection: socket.socket) -> None:
        """Kill everything in the PID namespace but this process; answered when all are reaped."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        self._waiting_for_end.append(connection)
        self._reap()

    def _reap(self) -> None:
        try:
            while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                item = self._running.pop(found[0], None)
                if item is not None:
                    self._finish(item, found[1])
        except ChildProcessError:
            while self._waiting_for_end:
                _answer(self._waiting_for_end.pop(), {})

    # --- files -----------------------------------------------------------------------------------

    def _copy(
        self, connection: socket.socket, request: Mapping[str, Any], descriptors: list[int]
    ) -> None:
        def work() -> None:
            result: object = None
            if request["kind"] == "lay":
                source = descriptors[0] if descriptors else None
                files.lay(source, request["path"], request)
            elif request["kind"] == "look":
                result = files.look(request["path"])
            elif request["kind"] == "folder":
                files.make_folder(request["path"])
            elif request["kind"] == "get":
                files.get(
                    request["path"],
                    descriptors[0],
                    request["name"],
                    files.Room(request["max_bytes"], request["max_depth"]),
                )
            else:
                result = files.read_end(request["path"], request["max_bytes"])
            _answer(connection, {"result": result})

        _fork(work, connection)
        connection.close()
        for descriptor in descriptors:
            os.close(descriptor)


def _fork(work: Callable[[], None], connection: socket.socket) -> int:
    """Run `work` in a child; what it raises is answered on the connection."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        work()
        os._exit(0)
    except BaseException as problem:  # noqa: BLE001  nothing may unwind into the holder's loop
        _answer(connection, _describe(problem))
    finally:
        os._exit(1)


def _answer(connection: socket.socket, message: Any) -> None:
    with contextlib.suppress(OSError):  # the owner no longer waits
        connection.sendall(wire.pack(message))
    connection.close()


# --- start ---------------------------------------------------------------------------------------


def main(lifeline_number: int) -> NoReturn:
    """Start as told by the first message on the lifeline; never returns.

    The answer is one byte: `+` with a descriptor of the view's /dev/shm, or `-` and a message that
    names the stage which failed. The lifeline brings the process id of the holder, as the owner
    sees it.
    """
    lifeline = socket.socket(fileno=lifeline_number)
    lifeline.set_inheritable(False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _, descriptors = _receive_descriptors(lifeline)
    if not descriptors:
        os._exit(1)
    connection = socket.socket(fileno=descriptors[0])
    config = wire.receive(connection)
    if config is None:
        os._exit(1)
    with _stage("process control", connection):
        owner = os.pidfd_open(config["owner"])
        last_capability = confine.last_capability()
    with _stage("cgroup", connection):
        paths = config["cgroup_procs"]
        cgroup_files = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in paths]
    with _stage("user namespace", connection):
        _enter_user_namespace(config["namespaces"])
    with _stage("namespaces", connection):
        unshare(config["namespaces"] & ~CLONE_NEWUSER)
        pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):
            lifeline.send(str(pid).encode())
        connection.close()
        lifeline.close()
        _keep(owner, pid)
    os.close(owner)
    with _stage("process control", connection):
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if config["namespaces"] & CLONE_NEWNET:
            _raise_loopback()
    with _stage("mount", connection):
        os.chdir(config["folder"])
        mounting.build(config["operations"], config["root"])
    with _stage("capabilities", connection):
        confine.bound_capabilities(last_capability)
        prctl(PR_SET_DUMPABLE, 0)
    # From here on the file system belongs to the task: nothing may be imported from it.
    sys.meta_path.clear()
    sys.path.clear()
    shared_memory = os.open("/dev/shm", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    socket.send_fds(connection, [b"+"], [shared_memory])
    os.close(shared_memory)
    connection.close()
    Holder(lifeline, cgroup_files).serve()
    os._exit(0)


@contextlib.contextmanager
def _stage(name: str, connection: socket.socket) -> Iterator[None]:
    """End this process if the block fails, after telling the owner where and why."""
    try:
        yield
    except Exception as problem:  # noqa: BLE001  the owner is told, whatever it was
        message = {"stage": name, **_describe(problem)}
        with contextlib.suppress(OSError):
            connection.sendall(b"-" + wire.pack(message))
        os._exit(1)


def _describe(problem: BaseException) -> dict[str, Any]:
    if not isinstance(problem, OSError):
        return {"errno": None, "error": repr(problem)}
    name = "" if problem.filename is None else f": {problem.filename}"
    return {"errno": problem.errno, "error": f"{problem.strerror}{name}"}


def _receive_descriptors(lifeline: socket.socket) -> tuple[bytes, list[int]]:
    """Take one datagram and the descriptors that came with it; no data is the owner's end."""
    size = array.array("i").itemsize
    data, control, _, _ = lifeline.recvmsg(
        16, socket.CMSG_SPACE(size * _MAX_DESCRIPTORS), socket.MSG_CMSG_CLOEXEC
    )
    descriptors = array.array("i")
    for _, _, content in control:
        descriptors.frombytes(content[: len(content) - len(content) % size])
    return data, list(descriptors)


def _enter_user_namespace(namespaces: int) -> None:
    """An ordinary user needs one of its own first, since it allows the others."""
    if not namespaces & CLONE_NEWUSER:
        return
    uid, gid = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER)
    _map_to_root(uid, gid)


def _map_to_root(uid: int, gid: int) -> None:
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"0 {uid} 1"),
        ("gid_map", f"0 {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _raise_loopback() -> None:
    up, get_flags, set_flags = 0x1, 0x8913, 0x8914
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anything:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(anything, get_flags, request))[1]
        fcntl.ioctl(anything, set_flags, struct.pack("16sh14x", b"lo", flags | up))


def _keep(owner: int, holder: int) -> NoReturn:
    """Outside the sandbox: end with the holder, and end the holder with the owner."""
    end = os.pidfd_open(holder)
    watch = select.poll()
    watch.register(owner, select.POLLIN)
    watch.register(end, select.POLLIN)
    ready = {source for source, _ in watch.poll()}
    if end not in ready:
        os.kill(holder, signal.SIGKILL)
    _, status = os.waitpid(holder, 0)
    os._exit(0 if status == 0 else 1)
