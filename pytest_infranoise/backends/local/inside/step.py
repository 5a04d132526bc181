"""From a fork of the holder to the task's program: cgroups, identity, confinement, `execve`."""

import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from .confine import refuse_namespaces
from .files import make_folder
from .syscalls import CLONE_NEWCGROUP, unshare

NOT_FOUND = 127
NOT_EXECUTABLE = 126

_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class _CannotRunError(Exception):
    """The request cannot be carried out, as an exit code and one line for the step's output."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def become(request: Mapping[str, Any], output: int, cgroup_files: Sequence[int]) -> NoReturn:
    """Turn this child of the holder into the requested command; never returns.

    The cgroups come first, so that everything the command does is counted and limited.
    """
    os.setsid()
    for file in cgroup_files:
        os.write(file, b"0")
    with contextlib.suppress(OSError):  # only decides how /proc/self/cgroup reads
        unshare(CLONE_NEWCGROUP)
    _set_standard_files(output)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o022)
    try:
        uid, gid, groups, home = _identity(request["user"])
        refuse_namespaces()
        if request["makes_workdir"]:
            _make_again(request["workdir"])
        _set_identity(uid, gid, groups, request["may_set_groups"])
        environment = {"HOME": home, **request["environment"]}
        _enter(request["workdir"])
        _execute(request["command"], environment)
    except _CannotRunError as problem:
        os.write(2, f"{problem}\n".encode(errors="surrogateescape"))
        os._exit(problem.exit_code)


def _set_standard_files(output: int) -> None:
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)


def _make_again(workdir: str) -> None:
    """Make the working folder if a step has removed it, as an engine does at the start."""
    with contextlib.suppress(OSError):
        if not os.path.isdir(workdir):
            os.close(_real(workdir))


def _real(workdir: str) -> int:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(workdir)
    return make_folder(workdir)


def _enter(workdir: str) -> None:
    try:
        os.chdir(workdir)
    except OSError as problem:
        message = f"working directory {workdir}: {problem.strerror}"
        raise _CannotRunError(NOT_EXECUTABLE, message) from None


def _identity(user: str | None) -> tuple[int, int, list[int], str]:
    """Look a user up in the view's own files: `name`, `uid`, either with `:group`.

    The C library's look-up would load modules that the task may have changed.
    """
    name, _, group = (user or "0").partition(":")
    uid, gid, home = _find_user(name)
    if group:
        gid = _find_group(group)
    return uid, gid, [gid, *_groups_of(uid, gid)], home


def _find_user(name: str) -> tuple[int, int, str]:
    for fields in _table("/etc/passwd", 6):
        if name in (fields[0], fields[2]):
            return int(fields[2]), int(fields[3]), fields[5] or "/"
    if name.isdigit():
        return int(name), 0, "/root" if name == "0" else "/"
    raise _CannotRunError(NOT_EXECUTABLE, f"unable to find user {name} in /etc/passwd")


def _find_group(name: str) -> int:
    for fields in _table("/etc/group", 3):
        if name in (fields[0], fields[2]):
            return int(fields[2])
    if name.isdigit():
        return int(name)
    raise _CannotRunError(NOT_EXECUTABLE, f"unable to find group {name} in /etc/group")


def _groups_of(uid: int, gid: int) -> list[int]:
    names = {fields[0] for fields in _table("/etc/passwd", 6) if fields[2] == str(uid)}
    found = []
    for fields in _table("/etc/group", 4):
        if names & set(fields[3].split(",")) and int(fields[2]) != gid:
            found.append(int(fields[2]))
    return found


def _table(path: str, width: int) -> list[list[str]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            rows = [line.rstrip("\n").split(":") for line in file]
    except OSError:
        return []
    numbers = slice(2, 4) if "passwd" in path else slice(2, 3)
    return [
        row for row in rows if len(row) >= width and all(field.isdigit() for field in row[numbers])
    ]


def _set_identity(uid: int, gid: int, groups: list[int], may_set_groups: bool) -> None:
    if not may_set_groups:
        if uid or gid:
            message = "only root exists in a sandbox of an ordinary user"
            raise _CannotRunError(NOT_EXECUTABLE, message)
        return
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _execute(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    name = command[0]
    folders = environment.get("PATH", _DEFAULT_PATH).split(":")
    candidates = [name] if "/" in name else [f"{folder or '.'}/{name}" for folder in folders]
    refused: OSError | None = None
    for candidate in candidates:
        try:
            os.execve(candidate, list(command), environment)
        except (FileNotFoundError, NotADirectoryError) as problem:
            if os.path.isfile(candidate):  # its interpreter is missing
                refused = refused or problem
        except OSError as problem:
            refused = refused or problem
    if refused is not None:
        raise _CannotRunError(NOT_EXECUTABLE, f"{name}: {refused.strerror}")
    raise _CannotRunError(NOT_FOUND, f"{name}: command not found")
