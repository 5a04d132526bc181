"""What a Dockerfile needs of its builder."""

import re
from collections.abc import Iterator
from itertools import takewhile

_SYNTAX = re.compile(r"#\s*syntax\s*=\s*\S+", re.IGNORECASE)
_ESCAPE = re.compile(r"#\s*escape\s*=\s*(\S)", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#\s*[A-Za-z]+\s*=")
_HEREDOC = re.compile(r"(?:^|[^<])<<-?\s*[\"']?[A-Za-z_]")
_FLAGS = {
    "RUN": ("mount", "network", "security", "device"),
    "COPY": ("link", "chmod", "parents", "exclude"),
    "ADD": ("link", "chmod", "checksum", "keep-git-dir", "exclude", "unpack"),
}
_BUILT_IN_ARGUMENTS = ("BUILDPLATFORM", "TARGETPLATFORM", "TARGETARCH", "BUILDARCH")


def has_syntax_line(text: str) -> bool:
    """Whether the file asks for a BuildKit front end by a `# syntax=` line at its top."""
    return any(_SYNTAX.match(line) for line in _directives(text))


def buildkit_feature(text: str) -> str | None:
    """Return the first thing in a Dockerfile that only BuildKit can build, or None.

    A `# syntax=` line alone is none: the classic builder reads it as a comment.
    """
    for instruction, rest in _instructions(text):
        if instruction in _FLAGS and (found := _first_flag(instruction, rest)):
            return found
        if instruction in ("RUN", "COPY", "ADD") and _HEREDOC.search(rest):
            return f"a here-document after {instruction}"
        if instruction == "FROM":
            for name in _BUILT_IN_ARGUMENTS:
                if re.search(rf"\$\{{?{name}\b", rest):
                    return f"${name}"
    return None


def _first_flag(instruction: str, rest: str) -> str | None:
    flags = takewhile(lambda word: word.startswith("--"), rest.split())
    names = (flag[2:].partition("=")[0] for flag in flags)
    return next((f"{instruction} --{name}" for name in names if name in _FLAGS[instruction]), None)


def _directives(text: str) -> Iterator[str]:
    lines = (line.strip() for line in text.removeprefix("\ufeff").splitlines())
    return takewhile(_DIRECTIVE.match, lines)


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield (instruction in capitals, its rest), continuation lines joined, comments left out."""
    escapes = [match[1] for line in _directives(text) if (match := _ESCAPE.match(line))]
    escape = escapes[0] if escapes else "\\"
    logical = ""
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if stripped.endswith(escape):
            logical += stripped[:-1] + " "
            continue
        instruction, _, rest = (logical + stripped).partition(" ")
        logical = ""
        yield instruction.upper(), rest.strip()
