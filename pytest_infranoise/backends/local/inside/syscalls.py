"""The few system calls that Python 3.11 does not offer; each raises `OSError`."""

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 0x2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24

_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 0x1
_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS = 0x2

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
)
_libc.prctl.argtypes = (ctypes.c_int, *(ctypes.c_ulong,) * 4)


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Mount a file system, or bind or remount one, as mount(2)."""
    words = (os.fsencode(source), os.fsencode(target), kind.encode())
    _check(_libc.mount(*words, flags, os.fsencode(data)), target)


def make_tree_read_only(target: str) -> None:
    """Make a mount and all mounts below it read-only (kernel >= 5.12)."""
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    result = _libc.syscall(
        _MOUNT_SETATTR,
        _AT_FDCWD,
        os.fsencode(target),
        _AT_RECURSIVE,
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    _check(result, target)


def open_plain(path: str, flags: int) -> int:
    """Open an existing file or folder, but through no link of /proc (kernel >= 5.6).

    Links such as /proc/self/fd/3 or /proc/1/root lead to what a process has open, whatever its root
    is; on the way through one, `OSError` with ELOOP is raised.
    """
    how = (ctypes.c_uint64 * 3)(flags | os.O_CLOEXEC, 0, _RESOLVE_NO_MAGICLINKS)
    size = ctypes.c_size_t(ctypes.sizeof(how))
    opened: int = _libc.syscall(_OPENAT2, _AT_FDCWD, os.fsencode(path), ctypes.byref(how), size)
    _check(opened, path)
    return opened


def enter_root(folder: str) -> None:
    """Make a mounted folder the root and cut the former root off, so that nothing leads back."""
    os.chdir(folder)
    _check(_libc.syscall(_PIVOT_ROOT[os.uname().machine], b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", MNT_DETACH), "the former root")
    os.chdir("/")


def unshare(flags: int) -> None:
    """Leave namespaces of this process for new ones, as unshare(2)."""
    _check(_libc.unshare(flags), "unshare")


def prctl(option: int, first: int = 0, second: int = 0) -> None:
    """Call prctl(2) with up to two arguments."""
    _check(_libc.prctl(option, first, second, 0, 0), f"prctl {option}")
