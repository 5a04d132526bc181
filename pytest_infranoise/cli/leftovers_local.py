"""What dead runs of the local backend left on this host."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from pytest_infranoise.backends.local.state import (
    RunFolder,
    SandboxState,
    choose_base,
    read_state,
    remove_sandbox,
    run_folder_path,
)
from pytest_infranoise.cli.leftovers import Found, Life, life_of_owner


def sandboxes() -> list[Found]:
    """Return every sandbox in this user's run folder, and the folder itself if nobody uses it.

    Whoever uses the folder holds a lock on it, so without one all that is there is left over.

    Raises:
        BackendUnavailableError: there is no place for a run folder.
    """
    base = choose_base()
    folder = run_folder_path(base)
    if not folder.is_dir() or folder.is_symlink():
        return []
    is_used = _is_locked(folder)
    found = [_sandbox(path, is_used) for path in sorted(folder.glob("sandboxes/*"))]
    if not is_used:
        found.append(
            Found("run folder", str(folder), None, Life.DEAD, "nobody uses it", _folder(base))
        )
    return found


def _sandbox(path: Path, is_used: bool) -> Found:
    state = read_state(path)
    if state is None:
        life = Life.UNKNOWN if is_used else Life.DEAD
        reason = "it is being made" if is_used else "it was never finished"
        state = SandboxState("unknown", path.name, "", ())
    elif is_used:
        life, reason = life_of_owner(state.owner, path.lstat().st_mtime)
    else:
        life, reason = Life.DEAD, "nobody uses the run folder"
    return Found("sandbox", path.name, state.study, life, reason, _remover(path, state))


def _remover(path: Path, state: SandboxState) -> Callable[[], None]:
    return lambda: remove_sandbox(path, state)


def _folder(base: Path) -> Callable[[], None]:
    """Enter the folder and leave it: the last one out removes it."""
    return lambda: RunFolder(base).close()


def _is_locked(folder: Path) -> bool:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
