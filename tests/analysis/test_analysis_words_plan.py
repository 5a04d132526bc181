import pytest
from made import CASES, study

from pytest_infranoise.analysis import analyse, verdict_lines
from pytest_infranoise.analysis.entries import (
    Infrastructure,
    compare_entries,
    compare_published,
    interaction,
)
from pytest_infranoise.analysis.planning import Design
from pytest_infranoise.analysis.words_plan import (
    SCEPTICISM,
    design_line,
    entry_lines,
    interaction_line,
    published_lines,
)
from pytest_infranoise.errors import UsageError
from pytest_infranoise.statistics.power import TrialVariance

pytestmark = pytest.mark.filterwarnings("error")


def test_what_a_design_can_detect():
    assert design_line(Design(n_tasks=89, n_sets=3), 5) == (
        "89 tasks x 5 samples: detects changes of 5.9 points or more with 80% power; equivalence "
        "within +-3 points needs about 22 samples per task (trial variance 0.1 assumed)"
    )
    few = Design(n_tasks=9, n_sets=3, variance=TrialVariance(0.12, assumed=False))
    assert "about 254 samples per task (trial variance 0.12 measured)" in design_line(few, 1)
    with pytest.raises(UsageError, match="plan: tasks is 1"):
        design_line(Design(n_tasks=1, n_sets=3), 5)


def test_two_entries():
    rows = CASES["S11"]["input"]["rows"]
    one = study([row for row in rows if row[1] in ("1x", "uncapped")])
    (found,) = compare_entries(
        one, one, [("1x", "uncapped")], infrastructure=Infrastructure(-0.01, 0.005)
    )
    lines = entry_lines(found, ("A", "B"))
    assert lines[0] == (
        "A 50.0% at 1x, B 58.0% at uncapped: +8.0 points (95% CI +6.2 to +9.8), p < 1e-9, "
        "200 tasks, paired by task"
    )
    assert lines[1] == (
        "the difference is larger than sampling noise and infrastructure noise together "
        "(sampling +-1.8 points, infrastructure another 1.0 +- 0.5)"
    )
    matching = Infrastructure(match=True)
    (found,) = compare_entries(one, one, [("1x", "uncapped")], infrastructure=matching)
    assert entry_lines(found, ("A", "B"))[1] == (
        "the difference is larger than sampling noise (sampling +-1.8 points; configurations match)"
    )
    result = interaction(one, one, from_sets=("1x", "1x"), to_sets=("uncapped", "uncapped"))
    assert interaction_line(result).startswith("difference of the two lifts 0.0 points (95% CI -")


def test_published_scores():
    found = compare_published(0.582, 0.569, n_tasks=89, samples=5)
    lines = published_lines(found, 89)
    assert lines[0].startswith("-1.3 points, unpaired (95% CI -15")
    assert "not larger than sampling noise" in lines[1]
    assert lines[2] == SCEPTICISM


def test_names_cannot_steer_the_terminal():
    rows = [(f"t{i}\x1b[31m", n, p, 1 - p, 0, 0, 0) for i in range(3)
            for n, p in (("1x", 0), ("3x", 1))]  # fmt: skip
    text = "\n".join(verdict_lines(analyse(study(rows)), verbosity=1))
    assert "\x1b" not in text
    assert "t0?[31m" in text


def test_unequal_samples_and_dropped_tasks_are_said():
    rows = [("a", "1x", 3, 1, 0, 0, 0), ("a", "3x", 1, 0, 0, 0, 0), ("b", "1x", 0, 1, 0, 0, 0),
            ("b", "3x", 1, 0, 0, 0, 0), ("c", "1x", 1, 0, 0, 0, 0)]  # fmt: skip
    text = verdict_lines(analyse(study(rows)))
    assert "samples per task differ; success as the mean over trials: 66.7% at 1x" in text
    assert (
        "3x: 1 of 3 tasks ran in one of the two sets only and are left out; success on the common "
        "ones 37.5% at 1x, 100.0%"
    ) in text
