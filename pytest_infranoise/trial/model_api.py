"""Agents that their model's provider refused: rate limits, overload, rejected keys.

All parameter sets share the provider, so such an error says nothing about any of them: the trial
was not measured. What shows it are lines that known agents print when they give up because of it;
they stand in one table per agent. A line counts only near the end of the output of an agent that
returned something else than 0. So neither a task that happens to be about HTTP errors nor an agent
that got over one is taken for it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_infranoise.backends.base import StepResult
from pytest_infranoise.model.outcome import Ending

Kind = Literal["rate limit", "overload", "authentication", "quota", "unreachable"]

LAST_LINES = 12
"""How many lines at the end of the output are searched, blank ones not counted."""
MAX_LINE_CHARACTERS = 300
_SEARCHED_CHARACTERS = 4000


@dataclass(frozen=True, slots=True)
class ApiError:
    """A kind of line that an agent ends with; `pattern` is searched in one line at a time."""

    kind: Kind
    pattern: re.Pattern[str]


def _error(kind: Kind, pattern: str) -> ApiError:
    return ApiError(kind, re.compile(pattern))


_SDK = r"^(?:[\w.]+: )?(?:anthropic|openai|litellm|groq|mistralai|cohere)\.(?:[\w.]+\.)?"
"""The last line of a Python traceback, with the module that its exception comes from."""

CLAUDE_CODE = (
    _error("rate limit", r"^API Error: (?:Request rejected \(429\)|429\b)"),
    _error("overload", r"^API Error: (?:5\d\d\b|Repeated 5\d\d\b|Overloaded)"),
    _error("authentication", r"^API Error: (?:401|403)\b|^Failed to authenticate\b"),
    _error("authentication", r"^Invalid API key\b|^Not logged in\b|^OAuth token (?:has )?expired"),
    _error("quota", r"^Credit balance is too low|^Claude (?:AI )?usage limit reached"),
    _error("quota", r"^You've (?:hit|reached) your (?:\w+ )*limit"),
    _error("unreachable", r"^API Error: (?:Unable to connect|Connection error|Request timed out)"),
    _error("rate limit", r'^\{"type":"result",.*"is_error":true,"api_error_status":429\b'),
    _error("overload", r'^\{"type":"result",.*"is_error":true,"api_error_status":5\d\d\b'),
    _error("authentication", r'^\{"type":"result",.*"is_error":true,"api_error_status":40[13]\b'),
)

_CODEX = r'^(?:ERROR: |\{"type":"(?:error|turn\.failed)",.*"message":")'

CODEX = (
    _error("rate limit", _CODEX + r"exceeded retry limit, last status: 429\b"),
    _error("overload", _CODEX + r"exceeded retry limit, last status: 5\d\d\b"),
    _error("rate limit", _CODEX + r"unexpected status 429\b"),
    _error("overload", _CODEX + r"unexpected status 5\d\d\b"),
    _error("authentication", _CODEX + r"unexpected status 40[13]\b"),
    _error("overload", _CODEX + r"We.re currently experiencing high demand\b"),
    _error("overload", _CODEX + r"Selected model is at capacity\b"),
    _error("quota", _CODEX + r"(?:You've hit your usage limit|Quota exceeded)"),
    _error("unreachable", _CODEX + r"stream disconnected before completion"),
)

PYTHON_SDK = (
    _error("rate limit", _SDK + r"RateLimitError\b"),
    _error("overload", _SDK + r"(?:InternalServerError|OverloadedError|ServiceUnavailableError)\b"),
    _error("overload", _SDK + r"APIError\b.*(?:[Oo]verloaded|\b5\d\d\b)"),
    _error("authentication", _SDK + r"(?:AuthenticationError|PermissionDeniedError)\b"),
    _error("unreachable", _SDK + r"(?:APIConnectionError|APITimeoutError|Timeout)\b"),
)
"""Agents in Python that end with the exception of a provider's own client."""

MINI_SWE_AGENT = PYTHON_SDK

AIDER = (
    *PYTHON_SDK,
    _error("rate limit", r"^The API provider has rate limited you\."),
    _error("overload", r"^The API provider's servers are down or overloaded\."),
    _error("authentication", r"^The API provider is not able to authenticate you\."),
    _error("quota", r"^The API provider has refused the request due to insufficient quota"),
)

TABLES: Mapping[str, Sequence[ApiError]] = {
    "claude": CLAUDE_CODE,
    "codex": CODEX,
    "mini": MINI_SWE_AGENT,
    "mini-swe-agent": MINI_SWE_AGENT,
    "aider": AIDER,
}
"""What each agent ends with, by the program that runs it."""

ANY_AGENT: Sequence[ApiError] = tuple(dict.fromkeys((*CLAUDE_CODE, *CODEX, *PYTHON_SDK, *AIDER)))
"""For a command that names none of these programs: a script around one of them, say."""


def table_for(agent: str) -> Sequence[ApiError]:
    """Return the table of the agents that a command line names, and of Python's clients."""
    words = {word.rpartition("/")[2] for word in re.split(r"[\s;&|()'\"=]+", agent)}
    named = [table for program, table in TABLES.items() if program in words]
    if not named:
        return ANY_AGENT
    return tuple(dict.fromkeys(entry for table in (*named, PYTHON_SDK) for entry in table))


def proof_of_api_error(result: StepResult, table: Sequence[ApiError]) -> str | None:
    """Return the line with which an agent blames its model's provider, or None.

    An agent that returned 0, ran into its deadline or was ended otherwise has not given up because
    of the provider.
    """
    if result.ending is not Ending.EXIT or result.exit_code in (0, None):
        return None
    lines = [line for text in result.output.splitlines() if (line := text.strip())]
    for line in reversed(lines[-LAST_LINES:]):
        searched = line[:_SEARCHED_CHARACTERS]
        for entry in table:
            if entry.pattern.search(searched):
                return f"{entry.kind}: {searched}"[:MAX_LINE_CHARACTERS]
    return None
