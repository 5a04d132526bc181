"""`.harborignore`: what of `tests/` and `solution/` stays out of sandboxes, as gitignore has it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pytest_infranoise.errors import UsageError
from pytest_infranoise.tasks.place import display_path

IGNORE_FILE = ".harborignore"


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of an ignore file; `pattern` is matched against a path below the file's folder."""

    pattern: re.Pattern[str]
    excludes: bool
    folders_only: bool

    def matches(self, path: str, *, is_folder: bool) -> bool:
        """Whether the rule is about this path."""
        return (is_folder or not self.folders_only) and self.pattern.fullmatch(path) is not None


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Read the lines of an ignore file, in order."""
    return tuple(rule for line in text.splitlines() if (rule := _rule(line)) is not None)


def _rule(line: str) -> Rule | None:
    line = re.sub(r"(?<!\\) +$", "", line.rstrip("\r\n"))
    if not line or line.startswith("#"):
        return None
    excludes = not line.startswith("!")
    line = line.removeprefix("!")
    folders_only = line.endswith("/")
    body = line.rstrip("/") if folders_only else line
    if not body:
        return None
    is_anchored = "/" in body
    expression = _expression(_REPEATED.sub("**/", body.removeprefix("/")))
    return Rule(
        re.compile(expression if is_anchored else f"(?:.*/)?{expression}", re.DOTALL),
        excludes,
        folders_only,
    )


_REPEATED = re.compile(r"(?:(?<=/)|^)(?:\*\*/){2,}")
"""Folders at any depth, said more than once."""

_TOKEN = re.compile(
    r"(?P<inside>^\*\*/|/\*\*/)|(?P<below>/\*\*$)|\*+|\?|\[(?P<set>[^]]+)\]|\\(.)|."
)


def _expression(glob: str) -> str:
    """Return a glob as a regular expression, in which only `**` crosses a slash."""

    def translate(match: re.Match[str]) -> str:
        token = match[0]
        if match["inside"]:
            return "(?:.*/)?" if token.startswith("*") else "/(?:.*/)?"
        if match["below"]:
            return "/.+"
        if token[0] == "*":
            return "[^/]*"
        if token == "?":
            return "[^/]"
        if match["set"]:
            inner = re.sub(r"^[!^]", "^/", match["set"])
            return f"[{inner}]"
        return re.escape(token[-1])

    return _TOKEN.sub(translate, glob)


class IgnoreRules:
    """The ignore files of one folder of tests or of a solution, at any depth.

    A deeper file goes before one above it, a later line before an earlier one; nothing below an
    excluded folder comes back. The ignore files themselves always stay out.

    Raises:
        UsageError: an ignore file cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._rules = {
            path.parent.relative_to(folder): _read(path) for path in sorted(_files(folder))
        }

    def __bool__(self) -> bool:
        return bool(self._rules)

    def excludes(self, path: PurePosixPath, *, is_folder: bool = False) -> bool:
        """Whether a path relative to the folder stays out, by itself or with a folder above it."""
        parts = path.parts
        return any(
            self._excludes(PurePosixPath(*parts[:end]), is_folder or end < len(parts))
            for end in range(1, len(parts) + 1)
        )

    def _excludes(self, path: PurePosixPath, is_folder: bool) -> bool:
        if path.name == IGNORE_FILE:
            return True
        excluded = False
        for above in reversed(path.parents):  # the folder itself first
            own = str(path.relative_to(above))
            for rule in self._rules.get(Path(above), ()):
                if rule.matches(own, is_folder=is_folder):
                    excluded = rule.excludes
        return excluded

    def ignored(self, folder: str, names: Sequence[str]) -> set[str]:
        """Return which of a folder's names stay out, as `shutil.copytree` asks for it."""
        below = Path(folder).relative_to(self.folder)
        return {
            name
            for name in names
            if self._excludes(
                PurePosixPath(below / name),
                (Path(folder) / name).is_dir() and not (Path(folder) / name).is_symlink(),
            )
        }


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob(IGNORE_FILE) if path.is_file())


def _read(path: Path) -> tuple[Rule, ...]:
    try:
        return parse_rules(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, re.error) as error:
        raise UsageError(f"{display_path(path)}: cannot be read: {error}") from None


def check_included(folder: Path, name: str) -> None:
    """Refuse a folder whose ignore files leave out what it is for.

    Raises:
        UsageError: `name`, which is there, stays out.
    """
    if (folder / name).is_file() and IgnoreRules(folder).excludes(PurePosixPath(name)):
        raise UsageError(
            f"{display_path(folder / name)}: left out by {IGNORE_FILE}, but nothing works without "
            "it; change the pattern"
        )
