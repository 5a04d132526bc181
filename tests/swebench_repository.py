"""A small git repository with a bug as a SWE-bench instance: repository, image, row."""

import json
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

INSTANCE = "makers__tally-1"
BUGGY = "def total(numbers):\n    return sum(numbers[1:])\n"
FIXED = "def total(numbers):\n    return sum(numbers)\n"
OLD_TESTS = "from tally import total\n\n\ndef test_nothing():\n    assert total([]) == 0\n"
NEW_TESTS = OLD_TESTS + "\n\ndef test_first():\n    assert total([1, 2]) == 3\n"
HUNGRY_TESTS = NEW_TESTS + "\n\ndef test_table():\n    assert len(bytearray({mib} << 20)) > 0\n"
"""One more test, which needs memory."""

_SETUP = Path(__file__).parent / "terminal_bench_style/git-merge-conflict/environment/Dockerfile"
COMMON_LAYERS = _SETUP.read_text().partition("WORKDIR")[0]
"""The first layers of the tests' other images, with git and pytest: they are built once."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository at `path`, whose state is the instance's base commit."""

    path: Path
    commit: str = field(default="", init=False)

    @classmethod
    def make(cls, path: Path) -> "Repository":
        (path / "tests").mkdir(parents=True)
        (path / "tally.py").write_text(BUGGY)
        (path / "tests/test_tally.py").write_text(OLD_TESTS)
        (path / ".gitignore").write_text("__pycache__/\n.pytest_cache/\n")
        (path / "conftest.py").write_text("")
        made = cls(path)
        made.git("init", "-q", "-b", "main")
        made.git("add", ".")
        made.git("commit", "-q", "-m", "Count")
        object.__setattr__(made, "commit", made.git("rev-parse", "HEAD").strip())
        return made

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=Maker", "-c", "user.email=maker@example.org")
        command = ["git", "-C", str(self.path), *identity, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def patch(self, name: str, text: str) -> str:
        """Return the change that gives a file another text, as git writes it."""
        (self.path / name).write_text(text)
        diff = self.git("diff")
        self.git("checkout", "-q", "--", ".")
        return diff

    def context(self, folder: Path) -> Path:
        """Return a folder from which the instance's image is built: git, pytest, /testbed."""
        shutil.copytree(self.path, folder / "repository")
        (folder / "Dockerfile").write_text(
            f"{COMMON_LAYERS}COPY repository /testbed\nWORKDIR /testbed\n"
        )
        return folder

    def row(self, image: str | None, *, tests: str = NEW_TESTS, **changes: Any) -> dict[str, Any]:
        """Return the instance as a row of a data set; a change to None leaves the key out."""
        test_patch = self.patch("tests/test_tally.py", tests)
        names = [line[4:].partition("(")[0] for line in tests.splitlines() if line[:4] == "def "]
        ids = [f"tests/test_tally.py::{name}" for name in names]
        row = {
            "repo": "makers/tally",
            "instance_id": INSTANCE,
            "base_commit": self.commit,
            "patch": self.patch("tally.py", FIXED),
            "test_patch": test_patch,
            "problem_statement": "total() forgets the first number.",
            "version": "1.0",
            "FAIL_TO_PASS": json.dumps(ids[1:2]),
            "PASS_TO_PASS": json.dumps([*ids[:1], *ids[2:]]),
            "image": image,
            "log_parser": "parse_log_pytest",
            "eval_type": "pass_and_fail",
            "eval_script": eval_script(self.commit, test_patch),
            **changes,
        }
        return {key: value for key, value in row.items() if value is not None}


def eval_script(commit: str, test_patch: str, command: str = "python3 -m pytest -rA") -> str:
    """Return an evaluation script as the data set's rows hold them."""
    reset = f"git checkout {commit} tests/test_tally.py"
    return "\n".join([
        "#!/bin/bash",
        "set -uxo pipefail",
        "cd /testbed",
        "git config --global --add safe.directory /testbed",
        "git status",
        reset,
        f"git apply -v - <<'EOF_114329324912'\n{test_patch}\nEOF_114329324912",
        ": '>>>>> Start Test Output'",
        f"{command} tests/test_tally.py",
        ": '>>>>> End Test Output'",
        f"{reset}\n",
    ])  # fmt: skip
