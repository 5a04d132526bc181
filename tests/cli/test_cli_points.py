"""How differences of rates are written on the command line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_infranoise.errors import UsageError
from pytest_infranoise.units import parse_points


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2pp", 0.02), ("2 pp", 0.02), ("2PP", 0.02), ("2%", 0.02), (" 0.02 ", 0.02), (".02", 0.02),
        ("0.5pp", 0.005), ("12.5%", 0.125), ("99.9pp", 0.999), ("0.05", 0.05), ("1pp", 0.01),
    ],
)  # fmt: skip
def test_what_is_accepted(text, value):
    assert parse_points(text, where="--margin") == value


@pytest.mark.parametrize(
    "text",
    ["", "pp", "2", "1", "1.0", "0", "0pp", "-2pp", "+2pp", "100pp", "100%", "2p", "2ppp", "nan",
     "inf", "2,5pp", "1e-2", "٢pp", "2pp 3pp"],
)  # fmt: skip
def test_what_is_refused(text):
    with pytest.raises(UsageError, match="--margin"):
        parse_points(text, where="--margin")


def test_a_bare_number_is_answered_with_its_fix():
    with pytest.raises(UsageError, match="write 3pp"):
        parse_points("3", where="--margin")


@given(st.integers(1, 9999))
def test_points_per_cent_and_proportion_agree(hundredths):
    text = f"{hundredths / 100:.2f}"
    expected = hundredths / 10_000
    assert parse_points(f"{text}pp", where="x") == parse_points(f"{text}%", where="x") == expected
    assert parse_points(f"{hundredths / 10_000:.4f}", where="x") == expected
