"""The install step of an agent: `--infra-agent-install`."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.install import AgentInstall
from pytest_infranoise.tasks.digest import directory_digest

MAX_SCRIPT_BYTES = 1024 * 1024


def make_install(text: str, files: Sequence[tuple[Path, str]], *, root: Path) -> AgentInstall:
    """Return the install step that a user names: a script on the host, or a command.

    What names a file below `root` (or anywhere, as an absolute path) is a script, and its text is
    what counts; all else is a command for the sandbox's `sh`. A lone word such as `./setup.sh` can
    only mean a script.

    Raises:
        UsageError: an empty command, a script that is missing or cannot be read, or a file that
            cannot be.
    """
    if not text.strip():
        raise UsageError("--infra-agent-install: write a command, or the path of a script")
    script = _script_at(root / text.strip())
    if script is None:
        _refuse_missing(text.strip(), root)
        script = text
    digest = hashlib.sha256(script.encode("utf-8", "surrogateescape"))
    for source, target in files:
        content = _file_digest(source)
        digest.update(f"\0{target}\0{content}".encode("utf-8", "surrogateescape"))
    return AgentInstall(script, digest.hexdigest(), tuple(files))


def _script_at(path: Path) -> str | None:
    """Return the text of a script, None where there is no such file."""
    try:
        if not path.is_file():
            return None
    except (OSError, ValueError):  # too long for a file's name, say: a command
        return None
    try:
        if path.stat().st_size > MAX_SCRIPT_BYTES:
            raise UsageError(f"--infra-agent-install: {path} is larger than 1 MiB, so no script")
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"--infra-agent-install: {path} cannot be read: {error}") from error
    if not text.strip():
        raise UsageError(f"--infra-agent-install: {path} is empty")
    return text


def _refuse_missing(text: str, root: Path) -> None:
    if len(text.split()) == 1 and text.startswith(("./", "../")):
        raise UsageError(
            f"--infra-agent-install: there is no script {text} in {root}; to run a file of the "
            f"image, write sh {text}"
        )


def _file_digest(path: Path) -> str:
    if path.is_dir():
        return directory_digest(path)
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
