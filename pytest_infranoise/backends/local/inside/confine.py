"""What a step may not do: capabilities beyond Docker's default, namespaces and mounts."""

import ctypes
import os
import struct

from .syscalls import PR_CAPBSET_DROP, PR_SET_SECCOMP, prctl

# Docker's default set without CAP_MKNOD: there is no device cgroup here to tame device nodes.
_KEPT_CAPABILITIES = frozenset(
    {
        0,  # CHOWN
        1,  # DAC_OVERRIDE
        3,  # FOWNER
        4,  # FSETID
        5,  # KILL
        6,  # SETGID
        7,  # SETUID
        8,  # SETPCAP
        10,  # NET_BIND_SERVICE
        13,  # NET_RAW
        18,  # SYS_CHROOT
        29,  # AUDIT_WRITE
        31,  # SETFCAP
    }
)


def last_capability() -> int:
    """Return the highest capability that the kernel knows; reads /proc."""
    with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as file:
        return int(file.read())


def bound_capabilities(last: int) -> None:
    """Narrow what any later `execve` can gain; the process itself keeps what it has."""
    for capability in range(last + 1):
        if capability not in _KEPT_CAPABILITIES:
            prctl(PR_CAPBSET_DROP, capability)


# --- system call filter --------------------------------------------------------------------------
# A root task without CAP_SYS_ADMIN could regain it in a user namespace of its own, mount a cgroup
# file system there and lift its own limits. So the calls that make namespaces and mounts are
# refused, as in Docker's default profile.

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# unshare setns mount umount2 pivot_root; those after 420 have one number everywhere.
_REFUSED = {
    "x86_64": (272, 308, 165, 166, 155),
    "aarch64": (97, 268, 40, 39, 41),
}
# open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr
_REFUSED_EVERYWHERE = (428, 429, 430, 431, 432, 433, 442)
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435  # its flags lie in memory, out of a filter's sight; libc falls back to clone
_CLONE_NEW = 0x7E020000

_LOAD, _JUMP_EQUAL, _JUMP_SET, _JUMP_GREATER_EQUAL, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | 1  # EPERM
_ABSENT = 0x00050000 | 38  # ENOSYS
_X32_BIT = 0x40000000


def _instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)


def build_filter(machine: str) -> bytes | None:
    """Return the filter as a BPF program, or None for a machine whose numbers are not known."""
    if machine not in _AUDIT_ARCH:
        return None
    lines = [
        _instruction(_LOAD, 4),  # architecture of the call
        _instruction(_JUMP_EQUAL, _AUDIT_ARCH[machine], 1, 0),
        _instruction(_RETURN, _ABSENT),
        _instruction(_LOAD, 0),  # its number
        _instruction(_JUMP_GREATER_EQUAL, _X32_BIT, 0, 1),
        _instruction(_RETURN, _ABSENT),
        _instruction(_JUMP_EQUAL, _CLONE3, 0, 1),
        _instruction(_RETURN, _ABSENT),
    ]
    for number in _REFUSED[machine] + _REFUSED_EVERYWHERE:
        lines += [_instruction(_JUMP_EQUAL, number, 0, 1), _instruction(_RETURN, _REFUSE)]
    lines += [
        _instruction(_JUMP_EQUAL, _CLONE[machine], 0, 3),
        _instruction(_LOAD, 16),  # low half of the first argument: clone's flags
        _instruction(_JUMP_SET, _CLONE_NEW, 0, 1),
        _instruction(_RETURN, _REFUSE),
        _instruction(_RETURN, _ALLOW),
    ]
    return b"".join(lines)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse_namespaces() -> None:
    """Put the filter on this process and its descendants; needs CAP_SYS_ADMIN."""
    code = build_filter(os.uname().machine)
    if code is None:
        return
    program = _Program(len(code) // 8, code)
    prctl(PR_SET_SECCOMP, 2, ctypes.addressof(program))
