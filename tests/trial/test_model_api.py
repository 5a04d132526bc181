"""Which ends of an agent's output blame its model's provider, and which do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_infranoise.backends.base import StepResult
from pytest_infranoise.model.outcome import Ending
from pytest_infranoise.trial.model_api import (
    ANY_AGENT,
    LAST_LINES,
    MAX_LINE_CHARACTERS,
    TABLES,
    proof_of_api_error,
    table_for,
)

JSON_END = '{"type":"result","subtype":"success","is_error":true,"api_error_status":%d,"turns":1}'

# What claude-code 2.1, codex 0.171, mini-swe-agent 2.4 and aider 0.86 printed against a server that
# answers with these codes; lines that no such run produced are marked.
SHOWN = [
    ("claude", "rate limit", "API Error: Request rejected (429) · This request would exceed your"),
    ("claude", "rate limit", "API Error: 429 rate_limit_error"),  # not seen
    ("claude", "overload", "API Error: 529 Overloaded. This is a server-side issue, usually tempo"),
    ("claude", "overload", "API Error: 500 Internal server error. This is a server-side issue"),
    ("claude", "overload", "API Error: Repeated 529 Overloaded errors"),  # not seen
    ("claude", "authentication", "Invalid API key · Fix external API key"),
    ("claude", "authentication", "Failed to authenticate. API Error: 403 Request not allowed"),
    ("claude", "authentication", "Not logged in · Please run /login"),  # not seen
    ("claude", "authentication", "API Error: 401 invalid x-api-key"),  # not seen
    ("claude", "quota", "Credit balance is too low"),
    ("claude", "quota", "Claude AI usage limit reached|1754"),  # not seen
    ("claude", "quota", "You've hit your weekly limit · resets 3am"),  # not seen
    ("claude", "unreachable", "API Error: Unable to connect to API (ConnectionRefused)"),
    ("claude", "rate limit", JSON_END % 429),
    ("claude", "overload", JSON_END % 529),
    ("claude", "authentication", JSON_END % 401),
    ("codex", "rate limit", "ERROR: exceeded retry limit, last status: 429 Too Many Requests"),
    ("codex", "overload", "ERROR: exceeded retry limit, last status: 503 Service Unavailable"),
    ("codex", "overload", "ERROR: unexpected status 529 <unknown status code>: Overloaded, url:"),
    ("codex", "rate limit", "ERROR: unexpected status 429 Too Many Requests: slow"),  # not seen
    ("codex", "authentication", "ERROR: unexpected status 401 Unauthorized: invalid x-api-key"),
    ("codex", "authentication", "ERROR: unexpected status 403 Forbidden: Request not allowed"),
    ("codex", "overload", "ERROR: We’re currently experiencing high demand, which may cause temp"),
    ("codex", "overload", "ERROR: Selected model is at capacity. Please try another"),  # not seen
    ("codex", "quota", "ERROR: You've hit your usage limit. Try again in 4 days"),  # not seen
    ("codex", "unreachable", "ERROR: stream disconnected before completion: closed"),  # not seen
    (
        "codex",
        "rate limit",
        '{"type":"turn.failed","error":{"message":"exceeded retry limit, last status: 429 Too"}}',
    ),
    ("mini", "rate limit", "RateLimitError: litellm.RateLimitError: RateLimitError: OpenAIExcept"),
    ("mini", "overload", "APIError: litellm.APIError: APIError: OpenAIException - Overloaded"),
    ("mini", "authentication", "litellm.exceptions.AuthenticationError: invalid key"),
    ("aider", "rate limit", "The API provider has rate limited you. Try again later or check your"),
    ("aider", "overload", "The API provider's servers are down or overloaded."),  # not seen
    ("aider", "authentication", "The API provider is not able to authenticate you. Check your"),
    ("aider", "quota", "The API provider has refused the request due to insufficient quota"),
    ("my-agent", "rate limit", "openai.RateLimitError: Error code: 429 - {'error': {}}"),
    ("my-agent", "overload", "anthropic.InternalServerError: Error code: 529"),
    ("my-agent", "overload", "anthropic._exceptions.OverloadedError: Error code: 529"),
    ("my-agent", "authentication", "openai.AuthenticationError: Error code: 401"),
    ("my-agent", "unreachable", "openai.APIConnectionError: Connection error."),
]

NOT_SHOWN = [
    "",
    "AssertionError: expected status 429, got 200",
    "curl: (22) The requested URL returned error: 429",
    "requests.exceptions.HTTPError: 429 Client Error: Too Many Requests",
    "I could not make the tests of the rate limiter pass.",
    "The server under test answers 529 Overloaded, which I could not fix.",
    "RateLimitError",
    "mylib.RateLimitError: too many calls",
    "class RateLimitError(openai.OpenAIError):",
    "ERROR: 3 tests failed",
    "ERROR: unexpected status 404 Not Found",
    "openai.BadRequestError: Error code: 400 - context length exceeded",
    "API Error: 400 prompt is too long",
    '{"type":"result","subtype":"error_max_turns","is_error":true,"api_error_status":null}',
]


def ended(output: str, exit_code: int | None = 1, ending: Ending = Ending.EXIT) -> StepResult:
    return StepResult(ending, exit_code, 1.0, output, len(output))


@pytest.mark.parametrize(("agent", "kind", "line"), SHOWN)
def test_lines_that_blame_the_provider(agent: str, kind: str, line: str) -> None:
    output = f"thinking\n\n{line}\n"
    for table in (table_for(f"{agent} -p task"), ANY_AGENT):
        proof = proof_of_api_error(ended(output), table)
        assert proof is not None
        assert proof.startswith(f"{kind}: {line}"[:MAX_LINE_CHARACTERS])


@pytest.mark.parametrize("line", NOT_SHOWN)
def test_lines_that_blame_nobody_else(line: str) -> None:
    assert proof_of_api_error(ended(f"done\n{line}\n"), ANY_AGENT) is None


def test_every_entry_is_shown_by_a_case() -> None:
    entries = {entry for table in TABLES.values() for entry in table}
    shown = {entry for entry in entries for _, _, line in SHOWN if entry.pattern.search(line)}
    assert [entry.pattern.pattern for entry in entries - shown] == []


@pytest.mark.parametrize("agent", TABLES)
def test_each_agent_has_the_table_of_its_program(agent: str) -> None:
    for command in (f"{agent} run", f"cd /app && /opt/bin/{agent} -p", f"X=1 {agent};true"):
        assert set(TABLES[agent]) <= set(table_for(command))
    assert table_for(f"./{agent}-wrapper.py") is ANY_AGENT


def test_another_agents_line_is_no_proof() -> None:
    result = ended("Invalid API key · Fix external API key")
    assert proof_of_api_error(result, table_for("codex exec")) is None
    assert proof_of_api_error(result, table_for("claude -p")) is not None


@pytest.mark.parametrize(
    ("exit_code", "ending"),
    [(0, Ending.EXIT), (None, Ending.DEADLINE), (None, Ending.OOM_POLICY), (None, Ending.LOST)],
)
def test_an_agent_that_did_not_give_up_proves_nothing(
    exit_code: int | None, ending: Ending
) -> None:
    line = "API Error: 529 Overloaded"
    assert proof_of_api_error(ended(line, exit_code, ending), ANY_AGENT) is None


def test_an_error_that_the_agent_got_over_is_no_proof() -> None:
    later = "\n".join(f"working on part {number}" for number in range(LAST_LINES))
    assert proof_of_api_error(ended(f"API Error: 529 Overloaded\n{later}"), ANY_AGENT) is None
    near = "\n\n".join(f"part {number}" for number in range(LAST_LINES - 1))
    assert proof_of_api_error(ended(f"API Error: 529 Overloaded\n{near}"), ANY_AGENT) is not None


def test_a_proof_is_bounded() -> None:
    proof = proof_of_api_error(ended("API Error: 529 " + "x" * 10_000), ANY_AGENT)
    assert proof is not None
    assert len(proof) == MAX_LINE_CHARACTERS


@given(st.text(max_size=2000), st.integers(-1, 255))
def test_any_output_is_judged(output: str, exit_code: int) -> None:
    proof = proof_of_api_error(ended(output, exit_code), ANY_AGENT)
    assert proof is None or exit_code != 0
