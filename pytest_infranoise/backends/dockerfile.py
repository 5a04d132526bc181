"""What of a Dockerfile can be honoured without an image: WORKDIR, ENV, COPY and ADD of files.

Instructions that only describe the image or its main process change nothing for us and are passed
over. Whatever would change the file system in another way is refused, by name and line.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

from pytest_infranoise.errors import UsageError

_PASSED_OVER = frozenset(
    {"CMD", "ENTRYPOINT", "EXPOSE", "HEALTHCHECK", "LABEL", "MAINTAINER", "SHELL", "STOPSIGNAL",
     "USER", "VOLUME"}
)  # fmt: skip
_DIRECTIVE = re.compile(r"#\s*(syntax|escape|check)\s*=\s*(\S.*)", re.IGNORECASE)
_VARIABLE = re.compile(
    r"\\(?P<escaped>\$)|\$(?:(?P<plain>\w+)|\{(?P<name>\w+)(?:(?P<how>:?[-+])(?P<word>[^}]*))?\})"
)
_HEREDOC = re.compile(r"<<-?['\"]?\w")
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


@dataclass(frozen=True, slots=True)
class Copy:
    """One COPY or ADD: sources relative to the context, and an absolute target in the sandbox.

    `into_folder` says that the target was written as a folder (it ends with a slash). `mode` is
    from `--chmod`, `owner` (uid, gid) from `--chown`.
    """

    sources: tuple[str, ...]
    target: PurePosixPath
    into_folder: bool
    mode: int | None = None
    owner: tuple[int, int] | None = None
    line: int = 0


@dataclass(frozen=True, slots=True)
class Dockerfile:
    """The part of a Dockerfile that the local backend honours, in the file's order.

    `base` is the image named by the last FROM. `folders` holds every WORKDIR, which is made.
    """

    path: Path
    base: str | None = None
    workdir: PurePosixPath | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    folders: tuple[PurePosixPath, ...] = ()
    copies: tuple[Copy, ...] = ()


def read_dockerfile(path: Path, environment: Mapping[str, str]) -> Dockerfile:
    """Read a Dockerfile; `environment` is what the base provides (its PATH, say).

    Raises:
        UsageError: an instruction cannot be honoured; the message names file, line and instruction.
    """
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    reader = _Reader(path, environment)
    for number, name, rest in _instructions(text):
        reader.take(number, name, rest)
    return reader.result()


def _instructions(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line number, instruction and arguments; continuation lines are joined."""
    escape, lines = "\\", text.splitlines()
    for line in lines:
        directive = _DIRECTIVE.fullmatch(line.strip())
        if directive is None:
            break
        if directive[1].lower() == "escape":
            escape = directive[2].strip()
    pending, start = "", 0
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if stripped.startswith("#") or not stripped:
            continue
        start = start or number
        if line.rstrip().endswith(escape):
            pending += line.rstrip()[: -len(escape)]
            continue
        name, _, rest = (pending + line).strip().partition(" ")
        yield start, name.upper(), rest.strip()
        pending, start = "", 0
    if pending.strip():
        name, _, rest = pending.strip().partition(" ")
        yield start, name.upper(), rest.strip()


class _Reader:
    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        self._path = path
        self._known = dict(environment)
        self._arguments: dict[str, str] = {}
        self._environment: dict[str, str] = {}
        self._base: str | None = None
        self._workdir: PurePosixPath | None = None
        self._folders: list[PurePosixPath] = []
        self._copies: list[Copy] = []
        self._line = 0

    def result(self) -> Dockerfile:
        return Dockerfile(
            self._path,
            self._base,
            self._workdir,
            self._environment,
            tuple(self._folders),
            tuple(self._copies),
        )

    def take(self, line: int, name: str, rest: str) -> None:
        self._line = line
        actions = {
            "FROM": self._from,
            "ARG": self._arg,
            "ENV": self._env,
            "WORKDIR": self._set_workdir,
            "COPY": self._copy,
            "ADD": self._add,
        }
        if name in actions:
            actions[name](rest)
        elif name not in _PASSED_OVER:
            self._refuse(name, "the local backend makes no images")

    def _refuse(self, name: str, why: str) -> None:
        raise UsageError(
            f"{self._path}:{self._line}: {name} cannot be honoured by the local backend: {why}; "
            "use --infra-backend=docker, or only WORKDIR, ENV and COPY of local files"
        )

    def _from(self, rest: str) -> None:
        words = [word for word in rest.split() if not word.startswith("--")]
        self._base = self._expand(words[0]) if words else None
        # A stage begins anew; what an earlier one made can only be had by COPY --from.
        self._workdir = None
        self._environment, self._folders, self._copies = {}, [], []

    def _arg(self, rest: str) -> None:
        for word in self._words(rest):
            name, equals, value = word.partition("=")
            if equals:
                self._arguments[name] = self._expand(value)

    def _env(self, rest: str) -> None:
        name, _, value = rest.partition(" ")
        pairs = [(name, value.strip())] if "=" not in name else self._pairs(rest)
        # All of one instruction see the values from before it.
        self._environment.update({name: self._expand(value) for name, value in pairs})

    def _pairs(self, rest: str) -> list[tuple[str, str]]:
        pairs = []
        for word in self._words(rest):
            name, equals, value = word.partition("=")
            if not equals or not name:
                self._refuse("ENV", f"{word!r} is not NAME=value")
            pairs.append((name, value))
        return pairs

    def _words(self, rest: str) -> list[str]:
        # Docker keeps \$ for the expansion that follows.
        try:
            return shlex.split(rest.replace("\\$", "\\\\$"))
        except ValueError as error:
            raise UsageError(f"{self._path}:{self._line}: {error}") from error

    def _expand(self, text: str) -> str:
        values = {**self._known, **self._arguments, **self._environment}

        def value(match: re.Match[str]) -> str:
            if match["escaped"]:
                return "$"
            name = match["plain"] or match["name"]
            how, word = match["how"], match["word"] or ""
            is_set = bool(values.get(name)) if how and how.startswith(":") else name in values
            if how and how.endswith("+"):
                return word if is_set else ""
            return values[name] if is_set else word

        return _VARIABLE.sub(value, text)

    def _absolute(self, text: str) -> PurePosixPath:
        path = (self._workdir or PurePosixPath("/")) / text
        parts: list[str] = []
        for part in path.parts[1:]:
            if part != "..":
                parts.append(part)
            elif parts:
                parts.pop()
        return PurePosixPath("/", *parts)

    def _set_workdir(self, rest: str) -> None:
        words = self._words(rest)
        self._workdir = self._absolute(self._expand(words[0] if words else ""))
        self._folders.append(self._workdir)

    def _copy(self, rest: str) -> None:
        self._take_copy("COPY", rest)

    def _add(self, rest: str) -> None:
        self._take_copy("ADD", rest)

    def _take_copy(self, name: Literal["COPY", "ADD"], rest: str) -> None:
        flags, words = self._split_flags(name, rest)
        if any(_HEREDOC.match(word) for word in words):
            self._refuse(name, "heredocs are not supported")
        words = [self._expand(word) for word in words]
        if len(words) < 2:
            self._refuse(name, "it needs a source and a target")
        *sources, target = words
        for source in sources if name == "ADD" else []:
            if "://" in source or source.startswith("git@"):
                self._refuse(name, f"{source} is not a local file")
            if source.endswith(_ARCHIVES):
                self._refuse(name, f"it would unpack {source}")
        into_folder = target.endswith(("/", "/.")) or target == "." or len(sources) > 1
        copy = Copy(
            tuple(sources),
            self._absolute(target),
            into_folder,
            self._mode(name, flags.get("chmod")),
            self._owner(name, flags.get("chown")),
            self._line,
        )
        self._copies.append(copy)

    def _split_flags(self, name: str, rest: str) -> tuple[dict[str, str], list[str]]:
        flags = {}
        while rest.startswith("--"):
            word, _, rest = rest.partition(" ")
            rest = rest.lstrip()
            flag, _, value = word[2:].partition("=")
            if flag not in ("chmod", "chown", "link"):
                self._refuse(f"{name} --{flag}", "it names something other than local files")
            flags[flag] = self._expand(value)
        if rest.startswith("["):
            try:
                words = json.loads(rest)
            except ValueError:
                words = None
            if isinstance(words, list) and all(isinstance(word, str) for word in words):
                return flags, words
        return flags, self._words(rest)

    def _mode(self, name: str, text: str | None) -> int | None:
        if text is None:
            return None
        if not re.fullmatch(r"[0-7]{1,4}", text):
            self._refuse(f"{name} --chmod={text}", "write the mode in octal")
        return int(text, 8)

    def _owner(self, name: str, text: str | None) -> tuple[int, int] | None:
        if text is None:
            return None
        user, _, group = text.partition(":")
        user, group = (("0" if word == "root" else word) for word in (user, group or user))
        if not (user.isdigit() and group.isdigit()):
            self._refuse(f"{name} --chown={text}", "write owner and group as numbers, or root")
        return int(user), int(group)
