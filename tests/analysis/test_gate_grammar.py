"""The language of gates: what is read, and where the caret stands where it is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_infranoise.analysis.gate_grammar import Gate, KnownSets, Measured, parse_gate
from pytest_infranoise.errors import MarkedUsageError, UsageError

SETS = KnownSets(["1x", "1x-aa", "3x", "mem5x-cpu1x", "uncapped"], "1x")


def parsed(text, sets=SETS):
    return parse_gate(text, where="--infra-gate", sets=sets)


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("infra_error_rate<=0.02@3x", (Measured.INFRA_ERROR, "3x", None, "<=", 0.02)),
        ("infra_error_rate <= 2% @ 3x", (Measured.INFRA_ERROR, "3x", None, "<=", 0.02)),
        ("infra_error_rate<=2pp", (Measured.INFRA_ERROR, None, None, "<=", 0.02)),
        ("infra_error_rate<=0", (Measured.INFRA_ERROR, None, None, "<=", 0.0)),
        ("success_rate>=.5@mem5x-cpu1x", (Measured.SUCCESS, "mem5x-cpu1x", None, ">=", 0.5)),
        ("success_rate>99.5%@uncapped", (Measured.SUCCESS, "uncapped", None, ">", 0.995)),
        ("success_rate<=100%@1x-aa", (Measured.SUCCESS, "1x-aa", None, "<=", 1.0)),
        ("agent_failure_rate<0.5", (Measured.AGENT_FAILURE, None, None, "<", 0.5)),
        ("upper(infra_error_rate)<=5%@3x", (Measured.INFRA_ERROR, "3x", "upper", "<=", 0.05)),
        ("lower( success_rate ) >= 40%", (Measured.SUCCESS, None, "lower", ">=", 0.4)),
        ("lift(3x)<=5pp", (Measured.LIFT, "3x", None, "<=", 0.05)),
        ("lift(3x)>=-5pp", (Measured.LIFT, "3x", None, ">=", -0.05)),
        ("lower(lift(uncapped))>0", (Measured.LIFT, "uncapped", "lower", ">", 0.0)),
        ("lift(3x)~0+-3pp", (Measured.LIFT, "3x", None, "~", 0.0, 0.03)),
        ("lift( 3x ) ~ -1pp +- 0.03", (Measured.LIFT, "3x", None, "~", -0.01, 0.03)),
        ("no-oom", (Measured.NO_OOM,)),
        ("no-oom@1x", (Measured.NO_OOM, "1x")),
        (" no-kill @ uncapped ", (Measured.NO_KILL, "uncapped")),
        ("recommended", (Measured.RECOMMENDED,)),
        ("recommended=3x", (Measured.RECOMMENDED, "3x", None, "=")),
        ("recommended<=uncapped", (Measured.RECOMMENDED, "uncapped", None, "<=")),
    ],
)
def test_what_is_read(text, gate):
    assert parsed(text) == Gate(text, *gate)


@pytest.mark.parametrize(
    ("text", "caret", "message"),
    [
        ("", 0, "no gate begins so"),
        ("nonsense", 0, "no gate begins so; write one of success_rate, "),
        ("  oom@1x", 2, "no gate begins so"),
        ("infra_error_rate", 16, "compare with <=, >=, <, >"),
        ("infra_error_rate = 0.02", 17, "compare with"),
        ("infra_error_rate == 0.02", 17, "compare with"),
        ("infra_error_rate<=", 18, "write a number"),
        ("infra_error_rate<=-2%", 18, "write a number"),
        ("infra_error_rate<=x", 18, "write a number"),
        ("infra_error_rate<=2@3x", 18, "2 may mean points or a proportion; write 2pp or 2%"),
        ("infra_error_rate<=1", 18, "1 may mean"),
        ("infra_error_rate<=101%", 18, "100% is the most"),
        ("infra_error_rate<=2%%", 20, "nothing may follow here"),
        ("infra_error_rate<=2%@", 21, "name a parameter set"),
        ("infra_error_rate<=2%@2x", 21, "no parameter set '2x'; it has 1x, 1x-aa, 3x, "),
        ("infra_error_rate~2%+-1%", 16, "compare with"),
        ("infra_error_rate@3x<=2%", 16, "compare with"),
        ("upper infra_error_rate<=2%", 6, "'(' is missing; write for example upper("),
        ("upper(infra_error_rate<=2%", 22, "')' is missing"),
        ("upper(no-oom)<=2%", 6, "no gate begins so"),
        ("upper(lift(3x))~0+-3pp", 15, "compare with <=, >=, <, >"),
        ("lift<=3pp", 4, "'(' is missing; write lift(SET)"),
        ("lift()<=3pp", 5, "name a parameter set"),
        ("lift(3x<=3pp", 5, "no parameter set '3x<=3pp'"),
        ("lift(2x)<=3pp", 5, "no parameter set '2x'"),
        ("lift(1x)<=3pp", 5, "1x is the baseline"),
        ("lift(3x)", 8, "compare with <=, >=, <, > or ~"),
        ("lift(3x)~0", 10, "'+-' is missing; write the margin"),
        ("lift(3x)~0+-", 12, "write a number"),
        ("lift(3x)~0+-0", 12, "a margin lies above 0"),
        ("lift(3x)~0+-3", 12, "3 may mean"),
        ("lift(3x)~0+-3pp@3x", 15, "nothing may follow"),
        ("no-oom@", 7, "name a parameter set"),
        ("no-oom@2x", 7, "no parameter set '2x'"),
        ("no-oom 1x", 7, "nothing may follow"),
        ("recommended>=3x", 11, "nothing may follow"),
        ("recommended=2x", 12, "no parameter set '2x'"),
        ("recommended<=1x", 13, "1x is the baseline"),
    ],
)
def test_the_caret_stands_at_the_mistake(text, caret, message):
    with pytest.raises(MarkedUsageError) as caught:
        parsed(text)
    first, shown, mark = str(caught.value).split("\n")
    assert first.startswith("--infra-gate: ")
    assert message in first
    assert shown == f"  {text}"
    assert mark == " " * (2 + caret) + "^"


def test_nothing_is_recommended_with_one_set():
    with pytest.raises(UsageError, match="with one parameter set"):
        parsed("recommended", KnownSets(["1x"], "1x"))


def test_without_sets_any_name_will_do():
    assert parsed("no-oom@9x", None).parameter_set == "9x"


def mistake_in(text):
    """Return the lines of the refusal, empty for a gate."""
    try:
        gate = parsed(text)
    except MarkedUsageError as error:
        return str(error).split("\n")
    assert gate.text == text
    return []


pieces = st.sampled_from(
    ["upper(", "lift(", "3x", ")", "~", "+-", "<=", "@", "2%", " ", "no-oom", "success_rate", "0"]
)


@given(st.one_of(st.text(max_size=30), st.lists(pieces, max_size=8).map("".join)))
def test_any_text_is_a_gate_or_a_marked_mistake(text):
    lines = mistake_in(text)
    if lines:
        assert len(lines) == 3
        assert len(lines[2]) <= len(text) + 3
        assert all(line.isprintable() for line in lines)
