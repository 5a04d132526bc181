"""Verifications that never began: a reward of 0 that is the network's fault, not the agent's.

Most benchmarks fetch the runner of their tests at grading time and write 0 when anything in
`test.sh` fails, so a host without a route to the index scores a correct solution 0. What shows it
stands in two tables: `SYMPTOMS`, lines that say that the runner could not be had, and `RUNS`, lines
that only a runner that ran can have printed and that overrule every symptom.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_infranoise.trial.network import (
    ELSEWHERE,
    NETWORK,
    Symptom,
    is_network_failure,
    symptom,
)

MAX_LINE_CHARACTERS = 300
MAX_SEARCHED = 2000
"""A longer line is data that was printed, not a message."""

RUNNERS = ("uv", "uvx", "pytest", "py.test", "pip", "pip3", "pipx", "curl", "wget", "ctrf")
"""Programs that tests are fetched or run with: without them no test ran.

Only these, since a missing `nginx` may well be what the agent should have installed.
"""

_RUNNER = "|".join(map(re.escape, RUNNERS))

SYMPTOMS = (
    *NETWORK,
    symptom("certificate unknown to curl", r"^curl: \((?:60|77)\) " + ELSEWHERE),
    symptom("download refused to curl", r"^curl: \(22\) .*error: (?:403|407|408|5\d\d)"),
    symptom(
        "runner not found",
        rf"(?:^|[\s:/'\"])(?:{_RUNNER})['\"]?: (?:command )?not found\s*$"
        rf"|command not found: (?:{_RUNNER})\s*$",
    ),
    symptom(
        "runner not there",
        rf"(?:exec|env): [‘'\"]?(?:\S*/)?(?:{_RUNNER})[’'\"]?: No such file or directory"
        rf"|: line \d+: (?:\S*/)?(?:{_RUNNER}): No such file or directory",
    ),
    symptom("uv not installed", r"/\.local/bin/env: No such file|can't open .*/\.local/bin/env"),
    symptom("runner not importable", r"No module named ['\"]?(?:pytest|pip|uv|_pytest)\b['\"]?$"),
    symptom(
        "no package from the index",
        r"ERROR: (?:No matching distribution found for|Could not find a version that satisfies the "
        r"requirement) (?:pytest|uv|pip)\b",
    ),
    symptom(
        "uv cannot fetch",
        r"^(?:error: |[×x] )?Failed to (?:fetch|download)\b.*(?:https?://|`)",
    ),
    symptom(
        "uv has no Python",
        r"^error: No (?:interpreter found for Python|download found for request)",
    ),
    symptom("apt cannot fetch", r"^E: (?:Failed to fetch|Unable to fetch some archives)"),
    symptom("apt finds no runner", rf"^E: Unable to locate package (?:{_RUNNER})\b"),
    symptom("apk cannot fetch", r"^(?:ERROR|WARNING): (?:unable to select|fetching .*https?://)"),
    symptom("certificate refused", r"SSL: CERTIFICATE_VERIFY_FAILED\].*(?:pypi|index|pool|host=)"),
)
"""Lines that prove that the runner could not be fetched or found."""

RUNS = (
    symptom("pytest began", r"^=+ test session starts =+$"),
    symptom("pytest ended", r"^=+ .*\b\d+ (?:passed|failed|errors?|skipped)\b.* =+$"),
    symptom(
        "pytest ended quietly",
        r"^\d+ (?:passed|failed|errors?|skipped)\b.* in \d+(?:\.\d+)?s|^no tests ran in ",
    ),
    symptom("pytest refused", r"^ImportError while loading conftest|^ERROR: usage: .*pytest"),
    symptom("unittest ended", r"^Ran \d+ tests? in \d"),
    symptom("TAP", r"^(?:not )?ok \d+\b"),
    symptom("go test ended", r"^--- (?:PASS|FAIL): |^(?:ok|FAIL)\s+\S+\s+\d+\.\d+s$"),
    symptom("cargo test ended", r"^test result: (?:ok|FAILED)\."),
)
"""Lines that prove that a runner ran, so that its 0 is a judgement."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The line that proves that tests never ran; whether it is the network that failed them."""

    line: str
    is_network: bool = False


def proof_of_failed_bootstrap(
    output: str, *, asks_for_ctrf: bool = False, has_ctrf: bool = False, fetches: bool = True
) -> Proof | None:
    """Return what proves that a reward of 0 is none, or None.

    The network's failure comes first, wherever its line stands: what is missing may be missing for
    another reason.

    Args:
        output: what `test.sh` printed.
        asks_for_ctrf: whether `test.sh` tells its runner to write `ctrf.json`.
        has_ctrf: whether that file is there now. A runner that got as far as writing it ran.
        fetches: whether `test.sh` can use the network itself. Where it cannot, lines about the
            network are what the agent's work printed.
    """
    if has_ctrf:
        return None
    lines = [line for text in output.splitlines() if len(line := text.strip()) <= MAX_SEARCHED]
    if any(_matches(RUNS, line) for line in lines):
        return None
    if fetches and (found := _network_line(lines)) is not None:
        return Proof(found[:MAX_LINE_CHARACTERS], is_network=True)
    table = SYMPTOMS if fetches else SYMPTOMS[len(NETWORK) :]
    found = next((line for line in lines if _matches(table, line)), None)
    if found is not None:
        return Proof(found[:MAX_LINE_CHARACTERS])
    if asks_for_ctrf:
        last = next((line for line in reversed(lines) if line), "nothing")
        words = "test.sh asks for ctrf.json, and none was written; its last line of output: "
        return Proof((words + last)[:MAX_LINE_CHARACTERS])
    return None


def _network_line(lines: Sequence[str]) -> str | None:
    numbered = enumerate(lines, start=1)
    return next((line for at, line in numbered if is_network_failure(line, lines[at:])), None)


def asks_for_ctrf(script: str) -> bool:
    """Whether the text of a `test.sh` tells its runner to write a `ctrf.json`, not in a comment."""
    lines = script.splitlines()
    return any("ctrf.json" in line for line in lines if not line.lstrip().startswith("#"))


def _matches(table: Sequence[Symptom], line: str) -> bool:
    return any(item.pattern.search(line) for item in table)
