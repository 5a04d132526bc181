"""Which tasks have a trial that this session's own options select, before anything is collected.

The process that the user started plans, refuses and prepares only these, and under xdist it never
collects. So the options are read here as pytest reads them; of its private parts only the reader of
`-k` and `-m` is used (checked with pytest 8.4 and 9.2). What only other plugins or a conftest.py
know is not asked: a task that is selected after all is planned and prepared by the first of its
trials.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.expression import Expression

from pytest_infranoise.model.trial import trial_id
from pytest_infranoise.plugin.isolation import task_file_of


def is_ignored(config: pytest.Config, path: Path) -> bool:
    """Whether `--ignore` or `--ignore-glob` names a path or a folder around it."""
    base = config.invocation_params.dir
    own = {Path(base / item) for item in config.getoption("ignore") or ()}
    globs = [str(base / item) for item in config.getoption("ignore_glob") or ()]
    around = (path, *path.parents)
    return any(item in own for item in around) or any(
        fnmatch(str(item), pattern) for item in around for pattern in globs
    )


class Selection:
    """The options of a session that select among trials of task folders.

    `sets` are the ids of the design's parameter sets, `samples` is how many it has of each.
    """

    def __init__(self, config: pytest.Config, sets: Iterable[str], samples: int) -> None:
        self._config = config
        self._trials = [(item, n) for n in range(1, samples + 1) for item in sets]
        self._deselected = tuple(config.getoption("deselect") or ())
        self._keyword = _expression(config.getoption("keyword"))
        self._mark = _expression(config.getoption("markexpr"))
        base = config.invocation_params.dir
        self._named = [
            (Path(base / path), rest) for path, _, rest in (a.partition("::") for a in config.args)
        ]

    def chosen(self, tasks: Mapping[Path, str], files: Mapping[Path, Path]) -> list[str]:
        """Return the names of the tasks with a trial that is selected, by their folders."""
        by_task = {name: list(self._ids(folder, name, files)) for folder, name in tasks.items()}
        failed = self._last_failed({item for ids in by_task.values() for item in ids})
        return [
            name
            for name, ids in by_task.items()
            if any(failed is None or item in failed for item in ids)
        ]

    def _ids(self, folder: Path, name: str, files: Mapping[Path, Path]) -> Iterator[str]:
        """Yield the ids of a task's selected trials."""
        file = files.get(folder) or task_file_of(folder)
        nodes: tuple[str, ...] = ()
        if file is None:  # no folder: an instance of a data set
            file, nodes = folder.parent, (folder.name,)
        if is_ignored(self._config, file):
            return
        parts = self._parts(file)
        for parameter_set, sample in self._trials:
            trial = trial_id(parameter_set, sample)
            node = "::".join(("/".join(parts), *nodes, trial))
            words = {*parts, *nodes, trial, name, parameter_set}
            if self._is_named(file, "::".join((*nodes, trial))) and self._is_kept(node, words):
                yield node

    def _parts(self, file: Path) -> tuple[str, ...]:
        root = self._config.rootpath
        return file.relative_to(root).parts if file.is_relative_to(root) else file.parts[1:]

    def _is_named(self, file: Path, rest: str) -> bool:
        """Whether an argument names the trial, its file or a folder around it."""
        own = [below for path, below in self._named if path == file]
        around = any(path in file.parents for path, _ in self._named) or not self._named
        return around or any(not below or (rest + "::").startswith(below + "::") for below in own)

    def _is_kept(self, node: str, words: set[str]) -> bool:
        if self._deselected and node.startswith(self._deselected):
            return False
        lowered = [word.lower() for word in words]

        def has_word(name: str, /, **facts: object) -> bool:
            return any(name.lower() in word for word in lowered)

        return self._keyword(has_word) and self._mark(_has_mark)

    def _last_failed(self, ids: set[str]) -> set[str] | None:
        """Return what `--lf` keeps of these, None for all."""
        cache = getattr(self._config, "cache", None)
        if not self._config.getoption("lf", False) or cache is None:
            return None
        failed = ids & set(cache.get("cache/lastfailed", {}))
        return failed or None


def _has_mark(name: str, /, **facts: object) -> bool:
    return False  # a task's trial has no mark


def _expression(text: str | None) -> Callable[[Any], bool]:
    """Return a `-k` or `-m`; one that cannot be read selects nothing, and pytest refuses it."""
    if not text or not text.strip():
        return lambda matcher: True
    try:
        return Expression.compile(text.strip()).evaluate
    except SyntaxError:
        return lambda matcher: False
