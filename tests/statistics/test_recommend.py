from dataclasses import replace

import pytest

from pytest_infranoise.statistics.recommend import PooledStep, Step, article_style, choose

GOOD = Step(
    "2x",
    candidate=True,
    infra_rate=0.02,
    infra_difference=-0.04,
    infra_p_holm=0.001,
    success_difference=0.0,
    success_p=1.0,
    equivalent=True,
)
THREE = replace(GOOD, id="3x", infra_rate=0.001)
UNCAPPED = replace(GOOD, id="uncapped", candidate=False, infra_rate=0.0)


def decide(*steps):
    return choose(steps, alpha=0.05, margin=0.03, tie=0.005)


@pytest.mark.parametrize(
    ("name", "steps", "status", "chosen"),
    [
        ("lowest infra rate", (GOOD, THREE, UNCAPPED), "recommended", "3x"),
        ("tie: the smaller", (replace(GOOD, infra_rate=0.006), THREE), "recommended", "2x"),
        ("just no tie", (replace(GOOD, infra_rate=0.0061), THREE), "recommended", "3x"),
        (
            "a lower multiplier that is not equivalent blocks the rest",
            (replace(GOOD, equivalent=False, success_p=0.01), THREE),
            "inconclusive",
            None,
        ),
        (
            "a lower multiplier need not reduce infra errors itself",
            (replace(GOOD, infra_p_holm=0.4), THREE),
            "recommended",
            "3x",
        ),
        (
            "small and insignificant is provisional only",
            (replace(GOOD, equivalent=False, success_difference=0.02, success_p=0.3),),
            "provisional",
            "2x",
        ),
        (
            "beyond the margin is not provisional",
            (replace(GOOD, equivalent=False, success_difference=0.031, success_p=0.3),),
            "inconclusive",
            None,
        ),
        (
            "an admissible one beats a provisional one",
            (GOOD, replace(THREE, equivalent=False, success_p=0.3)),
            "recommended",
            "2x",
        ),
        (
            "more infra errors are no reduction",
            (replace(GOOD, infra_difference=0.04),),
            "no_infra_signal",
            None,
        ),
        ("nothing significant", (replace(GOOD, infra_p_holm=0.05),), "no_infra_signal", None),
        ("uncapped alone is no candidate", (UNCAPPED,), "inconclusive", None),
        ("the host ran out of memory", (replace(GOOD, host_memory=True),), "inconclusive", None),
        (
            "host memory higher up leaves the lower multiplier",
            (GOOD, replace(THREE, host_memory=True)),
            "recommended",
            "2x",
        ),
        ("no multiplier", (), "no_infra_signal", None),
    ],
)
def test_rule(name, steps, status, chosen):
    result = decide(*steps)
    assert (result.status, result.chosen) == (status, chosen), name


def test_uncapped_counts_as_signal():
    assert decide(replace(GOOD, infra_p_holm=1.0), UNCAPPED).infra_reduced == ("uncapped",)


def test_pooled_rule_takes_not_significant_as_unchanged():
    two = PooledStep("2x", 0.03, -0.02, 0.01, 0.6)
    three = PooledStep("3x", 0.02, -0.03, 0.001, 0.4)
    assert article_style([two, three], alpha=0.05) == "3x"
    assert article_style([two, replace(three, success_p=0.01)], alpha=0.05) == "2x"
    assert article_style([replace(two, infra_p=0.2)], alpha=0.05) is None
