"""The rigs of tests/engines beside one another."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from required import missing_engine

TWO_RIGS = Path(__file__).parent / "engines" / "two_rigs.sh"


def test_a_rig_leaves_the_bridge_and_the_rules_of_another_engine_alone() -> None:
    programs = ("dockerd", "docker", "containerd", "iptables", "ip", "unshare")
    missing = [name for name in programs if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        missing_engine("docker", f"needs root and dockerd's programs; not here: {missing}")
    # A network of its own: whatever goes wrong, no engine of this machine notices.
    # A short path: sockets have 108 characters.
    with tempfile.TemporaryDirectory(prefix="rigs-", dir="/var/tmp") as folder:
        command = ["unshare", "--net", "sh", str(TWO_RIGS), folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all gone\n")
