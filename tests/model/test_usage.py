"""What is taken of an agent's own words on what it has used."""

import json
import math
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_infranoise.model.usage import (
    MAX_USAGE_BYTES,
    NUMBERS,
    Usage,
    UsageTotals,
    parse_usage,
    together,
)

FULL = {
    "input_tokens": 1200,
    "cached_input_tokens": 1000,
    "output_tokens": 34,
    "cost_usd": 0.25,
    "model_seconds": 12.5,
    "requests": 7,
    "retries": 1,
    "model": "some-model-2",
    "agent_version": "1.2.3",
}


def test_the_whole_of_it() -> None:
    assert parse_usage(json.dumps(FULL).encode()) == (Usage(**FULL), None)
    assert asdict(Usage(**FULL)) == FULL


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (b"", "usage.json is not JSON"),
        (b"\xff\xfe", "usage.json is not JSON"),
        (b"{", "usage.json is not JSON"),
        (b"[" * 50_000, "usage.json is not JSON"),
        (b"[1]", "usage.json is not a JSON object"),
        (b"null", "usage.json is not a JSON object"),
        (b" " * (MAX_USAGE_BYTES + 1), "usage.json is larger than 64 KiB and was not read"),
    ],
)
def test_what_is_no_usage_is_a_note(content: bytes, note: str) -> None:
    assert parse_usage(content) == (None, note)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("input_tokens", -1),
        ("input_tokens", 1.5),
        ("input_tokens", True),
        ("input_tokens", "12"),
        ("output_tokens", 10**30),
        ("retries", []),
        ("cost_usd", -0.01),
        ("cost_usd", math.nan),
        ("cost_usd", math.inf),
        ("cost_usd", 1e300),
        ("cost_usd", "1.00"),
        ("model_seconds", {"value": 1}),
        ("model", 4),
        ("model", "two\nlines"),
        ("model", ""),
        ("agent_version", ["1"]),
    ],
)
def test_a_field_that_is_not_as_documented_is_unknown(name: str, value: Any) -> None:
    usage, note = parse_usage(json.dumps({**FULL, name: value}).encode())
    assert usage == Usage(**{**FULL, name: None})
    assert note == f"usage.json: not as documented, so unknown: {name}"


def test_other_fields_and_nulls_are_passed_over() -> None:
    assert parse_usage(b'{"cost_usd": null, "turns": 3, "output_tokens": 5.0}') == (
        Usage(output_tokens=5),
        None,
    )
    assert parse_usage(b'{"turns": 3}') == (None, None)


def test_texts_are_bounded() -> None:
    usage, _ = parse_usage(json.dumps({"model": "m" * 5000}).encode())
    assert usage == Usage(model="m" * 200)


@given(st.binary(max_size=300))
def test_any_content_is_read(content: bytes) -> None:
    usage, _ = parse_usage(content)
    assert usage is None or not usage.is_empty


def test_steps_add_up_and_an_unknown_one_makes_it_unknown() -> None:
    first = Usage(input_tokens=10, cost_usd=0.5, model="a")
    second = Usage(input_tokens=5, model="b")
    assert together([first, second]) == Usage(input_tokens=15, model="a, b")
    assert together([first, None]) == Usage(model="a")
    assert together([]) is None
    assert together([None]) is None
    assert together([first]) == first


def test_totals_say_of_how_many_attempts_they_are() -> None:
    records = [
        {"usage": FULL},
        {"usage": {**FULL, "cost_usd": None, "model": "other"}},
        {"usage": None},
        {},  # of a journal that knew no usage
        {"usage": "broken"},
    ]
    totals = UsageTotals.of(records)
    assert (totals.attempts, totals.reported) == (5, 2)
    assert (totals.cost_usd, totals.with_cost) == (0.25, 1)
    facts = totals.to_json()
    assert facts["input_tokens"] == {"sum": 2400, "attempts": 2}
    assert facts["cost_usd"] == {"sum": 0.25, "attempts": 1}
    assert facts["models"] == ["some-model-2", "other"]
    json.dumps(facts, allow_nan=False)


def test_totals_of_nothing_are_unknown() -> None:
    facts = UsageTotals.of([{"usage": None}]).to_json()
    assert {facts[name]["sum"] for name in NUMBERS} == {None}
