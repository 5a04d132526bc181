from dataclasses import replace

import pytest

from pytest_infranoise.statistics.recommend import PooledStep, Step, article_style, choose

TWO = Step("2x", candidate=True, infra_rate=0.02, reduced=True, bounded=True, neutral=True)
THREE = replace(TWO, id="3x", infra_rate=0.001)
FIVE = replace(TWO, id="5x", infra_rate=0.0)
UNCAPPED = replace(TWO, id="uncapped", candidate=False, infra_rate=0.0)
OPEN = {"bounded": False, "neutral": False}


def decide(*steps, ceiling="3x"):
    return choose(steps, ceiling=ceiling, tie=0.005)


@pytest.mark.parametrize(
    ("name", "steps", "status", "chosen"),
    [
        ("lowest infra rate", (TWO, THREE, UNCAPPED), "recommended", "3x"),
        ("tie: the smaller", (replace(TWO, infra_rate=0.006), THREE), "recommended", "2x"),
        ("just no tie", (replace(TWO, infra_rate=0.0061), THREE), "recommended", "3x"),
        ("the ceiling covers what is below", (replace(TWO, **OPEN), THREE), "recommended", "3x"),
        (
            "covered, and better within the tie",
            (replace(TWO, **OPEN, infra_rate=0.002), THREE),
            "recommended",
            "2x",
        ),
        (
            "failing at the ceiling claims nothing for others",
            (TWO, replace(THREE, **OPEN)),
            "provisional",
            "3x",
        ),
        (
            "upwards from the ceiling until one fails",
            (TWO, replace(THREE, infra_rate=0.01), FIVE),
            "recommended",
            "5x",
        ),
        ("above a failure nothing", (TWO, THREE, replace(FIVE, **OPEN)), "recommended", "3x"),
        ("bounded, not neutral", (TWO, replace(THREE, neutral=False)), "repairs", "3x"),
        (
            "neutral alone is no repair",
            (TWO, replace(THREE, bounded=False)),
            "provisional",
            "3x",
        ),
        (
            "success fell: no repair",
            (replace(THREE, neutral=False, fell=True),),
            "inconclusive",
            None,
        ),
        ("fell, but equivalent", (replace(THREE, fell=True),), "recommended", "3x"),
        (
            "eased from the lowest of the sequence",
            (
                replace(TWO, **OPEN),
                replace(THREE, **OPEN, rose=True, gains=True),
                replace(UNCAPPED, **OPEN, rose=True, gains=True),
            ),
            "eased",
            "3x",
        ),
        (
            "a repair stands before easing higher up",
            (TWO, THREE, replace(UNCAPPED, **OPEN, rose=True, gains=True)),
            "recommended",
            "3x",
        ),
        (
            "what does not rise at the top ends the sequence",
            (replace(THREE, **OPEN, rose=True, gains=True), replace(UNCAPPED, **OPEN)),
            "provisional",
            "3x",
        ),
        ("nothing reduced", (replace(THREE, reduced=False),), "no_infra_signal", None),
        ("uncapped alone is no candidate", (UNCAPPED,), "inconclusive", None),
        ("the host ran out of memory", (replace(THREE, host_memory=True),), "inconclusive", None),
        (
            "host memory above the ceiling leaves what is below",
            (TWO, THREE, replace(FIVE, host_memory=True)),
            "recommended",
            "3x",
        ),
        ("no multiplier", (), "no_infra_signal", None),
    ],
)
def test_rule(name, steps, status, chosen):
    result = decide(*steps)
    assert (result.status, result.chosen) == (status, chosen), name


def test_what_was_shown_is_listed():
    found = decide(replace(TWO, reduced=False), THREE, replace(UNCAPPED, bounded=False))
    assert (found.infra_reduced, found.repairs) == (("3x", "uncapped"), ("3x",))
    assert found.neutral == ("2x", "3x", "uncapped")
    assert decide(TWO, THREE, ceiling=None).neutral == ()


def test_pooled_rule_takes_not_significant_as_unchanged():
    two = PooledStep("2x", 0.03, -0.02, 0.01, 0.6)
    three = PooledStep("3x", 0.02, -0.03, 0.001, 0.4)
    assert article_style([two, three], alpha=0.05) == "3x"
    assert article_style([two, replace(three, success_p=0.01)], alpha=0.05) == "2x"
    assert article_style([replace(two, infra_p=0.2)], alpha=0.05) is None
