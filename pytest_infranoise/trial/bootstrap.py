"""Verifications that never began: a reward of 0 that is the network's fault, not the agent's.

Most benchmarks fetch the runner of their tests at grading time and write 0 when anything in
`test.sh` fails, so a host without a route to the index scores a correct solution 0. What shows it
stands in two tables: `SYMPTOMS`, lines that say that the runner could not be had, and `RUNS`, lines
that only a runner that ran can have printed and that overrule every symptom.
"""

import re
from dataclasses import dataclass

MAX_LINE_CHARACTERS = 300

RUNNERS = ("uv", "uvx", "pytest", "py.test", "pip", "pip3", "pipx", "curl", "wget", "ctrf")
"""Programs that tests are fetched or run with: without them no test ran.

Only these, since a missing `nginx` may well be what the agent should have installed.
"""

_RUNNER = "|".join(map(re.escape, RUNNERS))
_RESERVED = r"(?:local|localdomain|localhost|test|example|invalid|internal|lan)"
_ELSEWHERE = (
    rf"(?!.*(?:localhost|127\.0\.0\.1|::1|0\.0\.0\.0|\.{_RESERVED}\b"
    r"|host:? [\w-]+\s*$|to [\w-]+ port))"
)
# Not a host of the task's own: one that the agent should have started or given a name.


@dataclass(frozen=True, slots=True)
class Symptom:
    """A kind of line in the output of `test.sh`; `pattern` is searched in one line at a time."""

    name: str
    pattern: re.Pattern[str]


def _symptom(name: str, pattern: str) -> Symptom:
    return Symptom(name, re.compile(pattern, re.IGNORECASE))


SYMPTOMS = (
    _symptom("host unknown to curl", r"could not resolve (?=host|proxy)" + _ELSEWHERE),
    _symptom(
        "host unknown to wget",
        r"wget: (?:unable to resolve host address|bad address) [‘']?" + _ELSEWHERE,
    ),
    _symptom(
        "download failed in curl",
        r"^curl: \((?:5|6|7|16|18|28|35|52|55|56|60|77|92)\) " + _ELSEWHERE,
    ),
    _symptom("download refused to curl", r"^curl: \(22\) .*error: (?:403|407|408|429|5\d\d)"),
    _symptom(
        "runner not found",
        rf"(?:^|[\s:/'\"])(?:{_RUNNER})['\"]?: (?:command )?not found\s*$"
        rf"|command not found: (?:{_RUNNER})\s*$",
    ),
    _symptom(
        "runner not there",
        rf"(?:exec|env): [‘'\"]?(?:\S*/)?(?:{_RUNNER})[’'\"]?: No such file or directory"
        rf"|: line \d+: (?:\S*/)?(?:{_RUNNER}): No such file or directory",
    ),
    _symptom("uv not installed", r"/\.local/bin/env: No such file|can't open .*/\.local/bin/env"),
    _symptom("runner not importable", r"No module named ['\"]?(?:pytest|pip|uv|_pytest)\b['\"]?$"),
    _symptom(
        "package index out of reach", r"Failed to establish a new connection: \[Errno -?\d+\]"
    ),
    _symptom("package index silent", r"ConnectTimeoutError\(|ReadTimeoutError\(.*pool"),
    _symptom(
        "no package from the index",
        r"ERROR: (?:No matching distribution found for|Could not find a version that satisfies the "
        r"requirement) (?:pytest|uv|pip)\b",
    ),
    _symptom(
        "uv cannot fetch",
        r"^(?:error: |[×x] )?Failed to (?:fetch|download)\b.*(?:https?://|`)"
        r"|error sending request for url",
    ),
    _symptom(
        "uv has no Python",
        r"^error: No (?:interpreter found for Python|download found for request)",
    ),
    _symptom("name service", r"Temporary failure in name resolution|Temporary failure resolving '"),
    _symptom("apt cannot fetch", r"^E: (?:Failed to fetch|Unable to fetch some archives)"),
    _symptom("apt finds no runner", rf"^E: Unable to locate package (?:{_RUNNER})\b"),
    _symptom("apk cannot fetch", r"^(?:ERROR|WARNING): (?:unable to select|fetching .*https?://)"),
    _symptom(
        "npm cannot fetch",
        r"^npm (?:ERR!|error) (?:code )?(?:EAI_AGAIN|ENOTFOUND|ETIMEDOUT|ECONNRESET)\b",
    ),
    _symptom("certificate refused", r"SSL: CERTIFICATE_VERIFY_FAILED\].*(?:pypi|index|pool|host=)"),
)
"""Lines that prove that the runner could not be fetched or found."""

RUNS = (
    _symptom("pytest began", r"^=+ test session starts =+$"),
    _symptom("pytest ended", r"^=+ .*\b\d+ (?:passed|failed|errors?|skipped)\b.* =+$"),
    _symptom(
        "pytest ended quietly",
        r"^\d+ (?:passed|failed|errors?|skipped)\b.* in \d+(?:\.\d+)?s|^no tests ran in ",
    ),
    _symptom("pytest refused", r"^ImportError while loading conftest|^ERROR: usage: .*pytest"),
    _symptom("unittest ended", r"^Ran \d+ tests? in \d"),
    _symptom("TAP", r"^(?:not )?ok \d+\b"),
    _symptom("go test ended", r"^--- (?:PASS|FAIL): |^(?:ok|FAIL)\s+\S+\s+\d+\.\d+s$"),
    _symptom("cargo test ended", r"^test result: (?:ok|FAILED)\."),
)
"""Lines that prove that a runner ran, so that its 0 is a judgement."""


def proof_of_failed_bootstrap(
    output: str, *, asks_for_ctrf: bool = False, has_ctrf: bool = False
) -> str | None:
    """Return the line that proves that a reward of 0 is none, or None.

    Args:
        output: what `test.sh` printed.
        asks_for_ctrf: whether `test.sh` tells its runner to write `ctrf.json`.
        has_ctrf: whether that file is there now. A runner that got as far as writing it ran.
    """
    if has_ctrf:
        return None
    lines = [line.strip() for line in output.splitlines()]
    if any(_matches(RUNS, line) for line in lines):
        return None
    found = next((line for line in lines if _matches(SYMPTOMS, line)), None)
    if found is not None:
        return found[:MAX_LINE_CHARACTERS]
    if asks_for_ctrf:
        last = next((line for line in reversed(lines) if line), "nothing")
        words = "test.sh asks for ctrf.json, and none was written; its last line of output: "
        return (words + last)[:MAX_LINE_CHARACTERS]
    return None


def asks_for_ctrf(script: str) -> bool:
    """Whether the text of a `test.sh` tells its runner to write a `ctrf.json`, not in a comment."""
    lines = script.splitlines()
    return any("ctrf.json" in line for line in lines if not line.lstrip().startswith("#"))


def _matches(table: tuple[Symptom, ...], line: str) -> bool:
    # A line of kilobytes is data that was printed, not a message.
    return len(line) <= 2000 and any(symptom.pattern.search(line) for symptom in table)
