"""A task folder is data: no conftest.py, pytest.ini or test module of its own is ever loaded.

pytest reads configuration and conftest files from the folders that the command line names before
any collection hook runs, so this works on pytest's early configuration and on its record of loaded
conftest files, which have no public interface (checked with pytest 8.4 and 9.2).
"""

from collections.abc import Iterator
from copy import copy
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from pytest_infranoise.plugin.options import SWEEP_INI, is_sweep

TASK_FILE = "task.toml"


def task_file_of(folder: Path) -> Path | None:
    """Return the file that makes a folder a task, if it is one."""
    if (folder / TASK_FILE).is_file():
        return folder / TASK_FILE
    if not (folder / "task.yaml").is_file():
        return None  # before the import: every pytest start comes along here
    from pytest_infranoise.tasks.files import task_file

    return task_file(folder)


def task_folder_of(path: Path) -> Path | None:
    """Return the outermost task folder that `path` is or lies in, if any."""
    holders = [folder for folder in (path, *path.parents) if task_file_of(folder) is not None]
    return holders[-1] if holders else None


def needs_shield(early_config: pytest.Config) -> bool:
    """Whether a sweep is on, or could be if the ini file were not one inside a task folder."""
    if is_sweep(early_config, early_config.known_args_namespace):
        return True
    return early_config.inipath is not None and task_folder_of(early_config.inipath) is not None


def shield_start(early_config: pytest.Config, args: list[str]) -> None:
    """Undo what a task folder on the command line contributed, and keep its conftest files out.

    Without a sweep a task folder is a folder like any other, and everything stays as it was.
    """
    named = early_config.known_args_namespace.file_or_dir
    if early_config.inipath is not None and task_folder_of(early_config.inipath) is not None:
        _use_outer_configuration(early_config, args, named)
    if not is_sweep(early_config, early_config.known_args_namespace):
        return
    for folder in _task_folders_in_reach(early_config, named):
        block_conftests(early_config.pluginmanager, folder, [])
    early_config.known_args_namespace.file_or_dir = [
        _outside(argument, early_config.invocation_params.dir) for argument in named
    ]


def block_conftests(manager: pytest.PytestPluginManager, folder: Path, inherited: Any) -> None:
    """Make pytest believe that the conftest files of a task folder are loaded: none of its own.

    `inherited` are those of the folders above, which still apply to the task's items.
    """
    for inner in (folder, folder / "tests", *(path for path in folder.glob("test*"))):
        manager._dirpath2confmods[inner] = list(inherited)


def _path_of(argument: str, base: Path) -> Path:
    return Path(base / str(argument).split("::")[0])


def _outside(argument: str, base: Path) -> str:
    """Return the argument, or the folder around the task folder that it points into."""
    folder = task_folder_of(_path_of(argument, base))
    return argument if folder is None else str(folder.parent)


def _task_folders_in_reach(config: pytest.Config, named: list[str]) -> Iterator[Path]:
    """Yield the task folders whose conftest files pytest would load at start."""
    base = config.invocation_params.dir
    anchors = [_path_of(argument, base) for argument in named] or [base]
    for anchor in anchors:
        folder = task_folder_of(anchor)
        if folder is not None:
            yield folder
            anchor = folder.parent
        if anchor.is_dir():
            yield from (path for path in anchor.glob("test*") if task_file_of(path) is not None)


def _use_outer_configuration(config: pytest.Config, args: list[str], named: list[str]) -> None:
    """Find root folder and ini file again as if only folders outside the tasks had been named."""
    namespace = config.known_args_namespace
    if namespace.inifilename:
        return  # named by -c: the user's own choice
    is_on_command_line = is_sweep(config, namespace)
    base = config.invocation_params.dir
    outer = [_outside(argument, base) for argument in named] or [str(base)]
    rootpath, inipath, values = _find_configuration(namespace, outer, base)
    if not is_on_command_line and not any(values.get(name) for name in SWEEP_INI):
        return
    wrong = config.getini("addopts")
    if wrong and args[: len(wrong)] == wrong:
        del args[: len(wrong)]
    config._rootpath, config._inipath = rootpath, inipath
    setattr(config, "_inicfg" if hasattr(config, "_inicfg") else "inicfg", values)  # 9.0, 8.4
    config._inicache.clear()
    args[:0] = config.getini("addopts")
    config.known_args_namespace = config._parser.parse_known_args(
        args, namespace=copy(config.option)
    )
    if config.known_args_namespace.confcutdir is None:
        cut = config.inipath.parent if config.inipath is not None else config.rootpath
        config.known_args_namespace.confcutdir = str(cut)


def _find_configuration(
    namespace: Any, arguments: list[str], base: Path
) -> tuple[Path, Path | None, dict[str, Any]]:
    """Return root folder, ini file and its values, as pytest finds them for these arguments."""
    from _pytest.config.findpaths import determine_setup

    given: dict[str, Any] = {
        "inifile": None,
        "args": arguments,
        "rootdir_cmd_arg": namespace.rootdir or None,
        "invocation_dir": base,
    }
    if "override_ini" in signature(determine_setup).parameters:  # not in pytest 8.4
        given["override_ini"] = namespace.override_ini
    found: Any = determine_setup(**given)
    return found[0], found[1], found[2]
