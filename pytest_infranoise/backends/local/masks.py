"""What of the host is hidden from every trial."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_infranoise.backends.local.hostmounts import HostMount, aliases
from pytest_infranoise.backends.local.layers import FRESH_FOLDERS

_FRESH = tuple(Path(name) for name in FRESH_FOLDERS)


@dataclass(frozen=True, slots=True)
class Masks:
    """Host paths, without links and wherever mounts show them: folders are empty, files absent."""

    folders: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()

    @classmethod
    def of(cls, paths: Sequence[Path], mounts: Sequence[HostMount]) -> "Masks":
        """Resolve paths; those that do not exist or are hidden anyway are left out."""
        everywhere: dict[Path, None] = {}
        for path in paths:
            real = Path(os.path.realpath(path))
            if real != Path("/"):
                everywhere.update(dict.fromkeys(aliases(real, mounts)))
        chosen: list[Path] = []
        for path in sorted(everywhere, key=lambda path: path.parts):
            if not any(path.is_relative_to(outer) for outer in (*_FRESH, *chosen)):
                chosen.append(path)
        folders = tuple(path for path in chosen if path.is_dir())
        files = tuple(path for path in chosen if path.exists() and not path.is_dir())
        return cls(folders, files)

    def hide(self, path: Path) -> bool:
        """Whether nothing of the host is shown at a path."""
        return any(path.is_relative_to(outer) for outer in (*_FRESH, *self.folders, *self.files))
