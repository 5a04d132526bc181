import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.model.trial import TrialRecord
from pytest_infranoise.model.usage import Usage
from pytest_infranoise.study.redact import MINIMUM_PART_LENGTH, Redactor, redact_arguments

HIDDEN = "<redacted>"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["pytest", "--infra-samples=5", "-n", "8"], None),
        (["--infra-agent=python3 /agent.py --max-tokens-file x"], None),
        (["-k", "token_limit or spike"], None),
        (["tests/test_tokens.py::test_a"], None),
        (["--api-key=abc"], [f"--api-key={HIDDEN}"]),
        (["--api-key", "abc", "x"], ["--api-key", HIDDEN, "x"]),
        (["--auth-token", "-v"], ["--auth-token", "-v"]),
        (["ANTHROPIC_API_KEY=abc"], [f"ANTHROPIC_API_KEY={HIDDEN}"]),
        (["--infra-agent=env MY_TOKEN='a b' run"], [f"--infra-agent=env MY_TOKEN={HIDDEN} run"]),
        (["--infra-agent=run --api-key abc -v"], [f"--infra-agent=run --api-key {HIDDEN} -v"]),
        (["--db=postgres://me:pw@host/x"], [f"--db=postgres://{HIDDEN}@host/x"]),
        (["TOKEN_2=abc"], [f"TOKEN_2={HIDDEN}"]),
        (["MAX_TOKENS=100", "--max-tokens", "100"], None),
        (["-k", "token or test_token::x"], None),
        (["AWS_SECRET_ACCESS_KEY=abc"], [f"AWS_SECRET_ACCESS_KEY={HIDDEN}"]),
        (["curl -H 'x-api-key: abc'"], [f"curl -H 'x-api-key: {HIDDEN}"]),
        (["curl -H 'Authorization: Bearer abc'"], [f"curl -H 'Authorization: Bearer {HIDDEN}"]),
        (["PASSWORD=x SECRET=y"], [f"PASSWORD={HIDDEN} SECRET={HIDDEN}"]),
    ],
)
def test_command_lines(arguments, expected):
    assert redact_arguments(arguments) == (arguments if expected is None else expected)


def test_values_are_replaced_by_their_names_wherever_they_stand():
    redactor = Redactor({"KEY": "abcd", "LONG": "abcdefgh", "ON": "1", "EMPTY": ""})
    value = {"a": ["x abcd", ("abcdefgh", 1, None, True)], "n": "10"}
    assert redactor.value(value) == {
        "a": ["x <redacted KEY>", ["<redacted LONG>", 1, None, True]],
        "n": "10",
    }


@given(st.integers(0, 40), st.integers(0, 40))
def test_no_part_of_a_value_survives_a_cut(before, after):
    value = "sk-0123456789-abcdefghij-KLMNOPQRST"
    redactor = Redactor({"KEY": value})
    start = redactor.text(f"{value[before:]} was sent")
    end = redactor.text(f"sent was {value[:after]}")
    if len(value[before:]) >= MINIMUM_PART_LENGTH:
        assert start == "<redacted KEY> was sent"
    if len(value[:after]) >= MINIMUM_PART_LENGTH:
        assert end == "sent was <redacted KEY>"
    both = redactor.text(f"{value[5:]}")
    assert both == "<redacted KEY>"


def test_the_values_stay_out_of_the_repr():
    assert "hunter22" not in repr(Redactor({"KEY": "hunter22"}))


@given(
    secret=st.text("abcdefgh", min_size=4, max_size=8), before=st.text("xyz"), after=st.text("xyz")
)
def test_no_secret_survives(secret, before, after):
    assert secret not in Redactor({"K": secret}).text(before + secret + after + secret)


def test_without_secrets_a_record_is_as_it_was(make_record):
    assert Redactor().record(make_record()) == make_record()


def test_names_and_figures_of_a_record_are_never_touched(make_record):
    record = make_record("passed", "uncapped", worker="gw0")
    secrets = {"A": "passed", "B": "uncapped", "C": "agent", "D": "memory"}
    redacted = Redactor(secrets).record(record)
    changed = {key for key in record if record[key] != redacted[key]}
    assert changed == {"detail"}  # "killed in agent"
    assert redacted["phases"][0]["phase"] == "agent"


def test_what_an_agent_says_of_itself_is_text_like_any_other(make_record):
    redactor = Redactor({"API_KEY": "abcd1234"})
    record = make_record(usage={"model": "via abcd1234", "cost_usd": 1.0})
    assert redactor.record(record)["usage"] == {"model": "via <redacted API_KEY>", "cost_usd": 1.0}
    names = {name: record[name] for name in ("study", "task", "parameter_set", "sample", "attempt")}
    rest = dict.fromkeys(("block", "position", "seed", "cause", "detail", "started_at", "worker"))
    trial = TrialRecord(
        **names,
        **rest,
        outcome=Outcome.PASSED,
        usage=Usage(model="via abcd1234", cost_usd=1.0),
        notes=("member 'abcd1234' leads out",),
    )
    assert redactor.trial(trial).notes == ("member '<redacted API_KEY>' leads out",)
    assert redactor.trial(trial).usage == Usage(model="via <redacted API_KEY>", cost_usd=1.0)
