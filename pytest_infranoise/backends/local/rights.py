"""What this process may do on this host, and what is missing where a sandbox cannot be had."""

import os
import re
from pathlib import Path

from pytest_infranoise.backends.local.channel import HolderStartError

_CAP_SYS_ADMIN = 21
_ALL_USERS = 2**32 - 1


def is_administrator() -> bool:
    """Whether this process may make mounts on this host itself.

    In a user namespace (a rootless container, say) even root is an ordinary user.
    """
    if os.geteuid() != 0:
        return False
    inside, outside, size = Path("/proc/self/uid_map").read_text(encoding="ascii").split()[:3]
    if (inside, outside) != ("0", "0") or int(size) < _ALL_USERS:
        return False
    status = Path("/proc/self/status").read_text(encoding="ascii")
    capabilities = re.search(r"^CapEff:\s*(\w+)", status, re.MULTILINE)
    return capabilities is not None and bool(int(capabilities[1], 16) >> _CAP_SYS_ADMIN & 1)


def explain(error: HolderStartError, as_user: bool) -> str:
    """Say in one line what this host lacks."""
    missing = {
        "user namespace": "user namespaces (sysctl user.max_user_namespaces, kernel."
        "unprivileged_userns_clone, AppArmor, or a container's seccomp profile)",
        "namespaces": "mount and PID namespaces",
        "mount": "overlay, proc or sysfs mounts in a namespace",
    }.get(error.stage, "a sandbox")
    who = "an ordinary user" if as_user else "root"
    return (
        f"local backend: this host does not allow {who} {missing}; {error}. "
        "Run as root outside a container, or use --infra-backend=docker"
    )
