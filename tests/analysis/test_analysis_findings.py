"""What an analysis finds: kills, movement, control, drift, the recommendation's conditions."""

from dataclasses import replace

import pytest
from made import CASES, study

from pytest_infranoise.analysis import (
    AnalysisSettings,
    Measure,
    RecommendationStatus,
    Shift,
    Status,
    analyse,
    verdict_lines,
)
from pytest_infranoise.analysis.recommendation import NOT_KILLS
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.outcome import Cause, Outcome
from pytest_infranoise.model.table import OutcomeTable
from pytest_infranoise.statistics.sequential import planned_looks

pytestmark = pytest.mark.filterwarnings("error")

S11 = CASES["S11"]["input"]["rows"]


def moved(*rows):
    """Names of tasks by shift from 1x to 3x; rows are (task, counts at 1x, counts at 3x)."""
    pairs = [(t, n, *c) for t, a, b in rows for n, c in (("1x", a), ("3x", b))]
    tasks = analyse(study(pairs)).comparison("3x").movement.tasks
    return {kind: names for kind, names in tasks.items() if names}


@pytest.mark.parametrize(
    ("before", "after", "shift"),
    [
        ((0, 0, 0, 5, 0), (5, 0, 0, 0, 0), Shift.RESCUED),
        ((2, 1, 0, 2, 0), (3, 1, 0, 1, 0), Shift.RESCUED),
        ((0, 0, 0, 5, 0), (0, 5, 0, 0, 0), Shift.DOOMED),
        ((0, 0, 0, 5, 0), (0, 0, 5, 0, 0), Shift.DOOMED),
        ((0, 5, 0, 0, 0), (1, 4, 0, 0, 0), Shift.EASED),
        ((0, 0, 5, 0, 0), (5, 0, 0, 0, 0), Shift.EASED),
        ((2, 2, 0, 1, 0), (4, 0, 0, 1, 0), Shift.EASED),
        ((0, 0, 0, 0, 5), (5, 0, 0, 0, 0), Shift.RECOVERED),
        ((5, 0, 0, 0, 0), (4, 1, 0, 0, 0), Shift.WORSENED),
        ((1, 0, 0, 4, 0), (0, 5, 0, 0, 0), Shift.WORSENED),
        ((0, 0, 0, 5, 0), (0, 0, 0, 5, 0), Shift.STILL_KILLED),
        ((0, 3, 0, 2, 0), (0, 2, 0, 3, 0), Shift.STILL_KILLED),
        ((3, 2, 0, 0, 0), (3, 2, 0, 0, 0), None),
        ((1, 1, 0, 0, 0), (2, 2, 0, 0, 0), None),
    ],
)
def test_how_a_task_moved(before, after, shift):
    assert moved(("t", before, after)) == ({} if shift is None else {shift: ("t",)})


def test_tasks_that_moved_by_themselves():
    rows = [(f"t{i}", n, *((5, 5, 0, 0, 0))) for i in range(20) for n in ("1x", "3x")]
    rows += [("sure", "1x", 0, 10, 0, 0, 0), ("sure", "3x", 10, 0, 0, 0, 0)]
    shifts = analyse(study(rows)).comparison("3x").movement.significant
    assert [shift.task for shift in shifts] == ["sure"]
    assert shifts[0].difference == 1.0
    assert shifts[0].p_value < shifts[0].q_value < 0.05


def one_row(outcome, **columns):
    table = OutcomeTable(tasks=["a"], parameter_sets=["1x"])
    table.add(0, 0, outcome, **columns)
    return analyse(table).sets[0]


@pytest.mark.parametrize(
    ("outcome", "columns", "number", "foreign", "unknown"),
    [
        (Outcome.OOM, {"oom_kills": 3, "cause": Cause.ENDED_PHASE}, 3, 0, 0),
        (Outcome.PASSED, {"oom_kills": 2}, 2, 0, 0),
        (Outcome.PASSED, {"oom_kills": 0}, 0, 0, 0),
        (Outcome.PASSED, {}, 0, 0, 1),
        (Outcome.OOM, {}, 1, 0, 1),
        (Outcome.INFRA_ERROR, {"oom_kills": 1, "cause": Cause.HOST_MEMORY}, 0, 1, 0),
        (Outcome.INFRA_ERROR, {"oom_kills": 1, "cause": Cause.UNATTRIBUTED_KILL}, 0, 1, 0),
    ],
)
def test_kills_are_counted(outcome, columns, number, foreign, unknown):
    kills = one_row(outcome, **columns).kills
    assert (kills.number, kills.foreign_trials, kills.unknown_trials) == (number, foreign, unknown)
    assert kills.tasks == kills.trials == int(number > 0)


def test_the_certain_part_of_oom():
    table = OutcomeTable(tasks=["a"], parameter_sets=["1x"])
    for sample, cause in enumerate((Cause.ENDED_PHASE, Cause.VERIFIER, Cause.SURVIVED_THEN_FAILED)):
        table.add(0, 0, Outcome.OOM, cause=cause, sample=sample)
    result = analyse(table).set("1x")
    assert (result.outcomes[Outcome.OOM], result.oom_ended_phase) == (3, 1)
    assert result.ended_phase.macro == pytest.approx(1 / 3)


def test_timeouts_behind_a_limit():
    table = OutcomeTable(tasks=["a"], parameter_sets=["1x"])
    table.add(0, 0, Outcome.TIMEOUT, sample=1, oom_kills=2)
    table.add(0, 0, Outcome.TIMEOUT, sample=2, throttled_share=0.9, oom_kills=0)
    table.add(0, 0, Outcome.TIMEOUT, sample=3, throttled_share=0.1, oom_kills=0)
    result = analyse(table)
    assert result.set("1x").timeouts_after_kill == 1
    assert result.set("1x").timeouts_throttled == 1


@pytest.mark.parametrize(("timeouts", "said"), [(8, True), (2, False)])
def test_timeouts_are_advised_on_where_they_changed_beyond_chance(timeouts, said):
    table = study([("a", "1x", 8 - timeouts, 0, 0, 0, 0), ("a", "3x", 8, 0, 0, 0, 0)])
    for sample in range(timeouts):
        table.add(0, 0, Outcome.TIMEOUT, sample=90 + sample, throttled_share=0.9)
    line = f"{timeouts} timeouts at 1x: {timeouts} with the CPU throttled"
    assert (line in verdict_lines(analyse(table))) is said


def test_timeouts_may_count_as_infra_errors():
    table = study([("a", "1x", 1, 1, 2, 1, 0)])
    assert analyse(table).set("1x").infra_error.macro == pytest.approx(0.2)
    moved_over = analyse(table, settings=AnalysisSettings(timeouts_are_infra=True)).set("1x")
    assert moved_over.infra_error.macro == pytest.approx(0.6)
    assert moved_over.agent_failure.macro == pytest.approx(0.2)
    assert moved_over.success_excluding_infra == pytest.approx(0.5)


def test_the_first_attempt_counts_and_retries_stay_visible():
    table = OutcomeTable(tasks=["a"], parameter_sets=["1x"])
    table.add(0, 0, Outcome.PASSED, attempt=2)
    table.add(0, 0, Outcome.INFRA_ERROR, attempt=1)
    table.add(0, 0, Outcome.PASSED, attempt=2)
    result = analyse(table)
    assert result.set("1x").infra_error.macro == 1.0
    assert (result.n_trials, result.later_attempts, result.duplicates) == (1, 1, 1)


def with_control(rows, shift):
    """Add an A/A control that passes `shift` more of five samples in the first 150 tasks."""
    extra = []
    for index, (task, _, passed, failed, *rest) in enumerate(r for r in rows if r[1] == "1x"):
        more = min(failed, shift) if index < 150 else 0
        extra.append((task, "1x-again", passed + more, failed - more, *rest))
    return study([*rows, *extra])


def test_control_is_shown_first_and_marks_what_is_no_larger():
    settings = AnalysisSettings(control="1x-again")
    plain = analyse(study(S11))
    quiet = analyse(with_control(S11, 0), settings=settings)
    assert quiet.control.success.difference == 0
    assert [c.parameter_set for c in quiet.comparisons] == ["2x", "3x", "uncapped"]
    assert quiet.recommendation == plain.recommendation
    assert quiet.spread == plain.spread
    assert not quiet.comparison("3x").success.within_control
    loud = analyse(with_control(S11, 1), settings=settings)
    assert loud.control.success.difference > 0.04
    assert loud.comparison("3x").success.within_control
    text = verdict_lines(loud, verbosity=1)
    start = "A/A control: 1x-again minus 1x, nothing changed: success +"
    assert any(line.startswith(start) for line in verdict_lines(loud))
    assert any("no larger than the A/A contrast" in line for line in text)


def test_fit_only_is_never_equivalent_or_recommended():
    result = analyse(study(S11), settings=AnalysisSettings(fit_only=True))
    assert result.recommendation.status is RecommendationStatus.FIT_ONLY
    for comparison in result.comparisons:
        for measure in comparison.measures:
            assert measure.status is Status.FIT_ONLY
            assert not measure.equivalent
    lines = verdict_lines(result)
    assert lines[0] == (
        "threshold: fit only: shows whether the reference solution fits; says nothing about a "
        "model's score"
    )
    assert [line for line in lines if "fit only" in line or "recommend" in line] == [lines[0]]
    assert not any(line.startswith(("noise", "spread")) for line in lines)
    copies, samples = (study_.comparison("3x").success for study_ in (result, analyse(study(S11))))
    assert copies.se_floor > samples.se_floor


def test_a_weak_engine_needs_the_readers_word():
    weak = AnalysisSettings(engine="local, watchdog", engine_is_isolating=False)
    withheld = analyse(study(S11), settings=weak).recommendation
    assert withheld.status is RecommendationStatus.WITHHELD
    assert (withheld.parameter_set, withheld.candidate) == (None, "3x")
    assert "local, watchdog" in withheld.why
    accepted = analyse(study(S11), settings=replace(weak, accept_engine=True))
    assert accepted.recommendation.parameter_set == "3x"
    assert any("measured by local, watchdog" in line for line in verdict_lines(accepted))


def test_host_memory_makes_a_contrast_inconclusive():
    table = study(S11)
    row = next(
        index
        for index in range(len(table))
        if table.parameter_sets[table.parameter_set[index]] == "2x" and table.outcome[index] == 0
    )
    other = OutcomeTable(tasks=["x"], parameter_sets=["2x"])
    other.add(0, 0, Outcome.INFRA_ERROR, cause=Cause.HOST_MEMORY)
    table.outcome[row], table.cause[row] = other.outcome[0], other.cause[0]
    result = analyse(table)
    assert any("so 2x against the baseline" in note for note in result.recommendation.notes)
    item = result.comparison("2x")
    assert {measure.status for measure in item.measures} == {Status.INCONCLUSIVE}
    assert (result.recommendation.parameter_set, result.recommendation.repairs) == ("3x", ("3x",))
    text = verdict_lines(result, verbosity=1)
    assert not any(line.startswith("2x: infra errors lower") for line in text)
    assert any(line.startswith("3x: infra errors lower") for line in text)
    assert any("1 at 2x; they are infra errors" in line for line in text)


def test_infra_errors_that_kills_do_not_explain():
    rows = [(t, n, p, f, to, 0, oom + infra) for t, n, p, f, to, oom, infra in S11]
    recommendation = analyse(study(rows)).recommendation
    assert recommendation.parameter_set == "3x"
    assert recommendation.notes == (NOT_KILLS,)


def test_sets_with_the_baselines_limits_get_no_contrast():
    settings = AnalysisSettings(same_as_baseline=frozenset({"2x"}))
    result = analyse(study(S11), settings=settings)
    assert [item.parameter_set for item in result.comparisons] == ["3x", "uncapped"]
    assert result.not_compared == ("2x",)
    assert "limits equal to 1x's, so not compared: 2x" in verdict_lines(result)


def test_a_look_has_its_own_level():
    look = planned_looks(12)[0]
    rows = [(f"t{i}", "1x", 0, 4, 0, 0, 0) for i in range(20)]
    rows += [(f"t{i}", "3x", 2 * (i < 4), 4 - 2 * (i < 4), 0, 0, 0) for i in range(20)]
    final = analyse(study(rows)).comparison("3x").success
    assert look.level_difference < final.p_adjusted < 0.05
    assert final.status is Status.HIGHER
    first = analyse(study(rows), settings=AnalysisSettings(look=look))
    assert first.comparison("3x").success.status is Status.INCONCLUSIVE
    assert first.undecided == ("3x",)
    assert any("planned look 1 of 3 at 4 of 12 samples" in line for line in verdict_lines(first))


def drifting(*, interleaved=None):
    rows = [(f"t{i:02d}", name, 3, 0, 0, 0, 0) for i in range(40) for name in ("1x", "3x")]
    table = study(rows, timed=True)
    failed = study([("a", "1x", 0, 1, 0, 0, 0)]).outcome[0]
    for index in range(len(table)):
        if table.sample[index] == 3 and table.task[index] % 2:
            table.outcome[index] = failed
    return analyse(table, settings=AnalysisSettings(interleaved=interleaved))


def test_drift_is_reported():
    result = drifting(interleaved=True)
    assert result.drift[Measure.SUCCESS].p_value < 0.001
    assert any(
        line.startswith("success drifted while the study ran") for line in verdict_lines(result)
    )


def test_drift_is_not_told_apart_from_sets_that_ran_in_turn():
    result = drifting(interleaved=False)
    assert result.drift == {}
    assert any("one after another" in line for line in verdict_lines(result))


def test_block_numbers_stand_in_for_unknown_times():
    table = study([(f"t{i}", n, 1, 2, 0, 0, 0) for i in range(9) for n in ("1x", "3x")])
    assert analyse(table).drift == {}
    for index in range(len(table)):
        table.block[index] = table.sample[index] * 9 + table.task[index]
    assert analyse(table).drift[Measure.SUCCESS].n_blocks == 27


def test_the_pooled_rule_is_shown_beside_ours():
    result = analyse(study(S11))
    assert result.article_choice == "3x"
    assert any("that rule would choose 3x" in line for line in verdict_lines(result, verbosity=1))


def test_declared_band_can_be_chosen():
    settings = AnalysisSettings(floor="2x", ceiling="uncapped")
    band = analyse(study(S11), settings=settings).noise_band
    assert (band.declared.floor, band.declared.ceiling) == ("2x", "uncapped")
    assert band.declared.contrast.difference == pytest.approx(0.08)


@pytest.mark.parametrize("wrong", [{"alpha": 0.0}, {"alpha": 0.7}, {"margin": 0.0}])
def test_settings_out_of_range(wrong):
    with pytest.raises(UsageError, match=f"{next(iter(wrong))}: .* must lie between"):
        AnalysisSettings(**wrong)


def test_the_table_can_grow_after_an_analysis():
    table = study([("a", "1x", 1, 1, 0, 0, 0), ("b", "1x", 1, 1, 0, 0, 0)])
    first = analyse(table)
    table.add(0, 0, Outcome.PASSED, sample=3)
    assert (first.n_trials, analyse(table).n_trials) == (4, 5)


@pytest.mark.parametrize(
    ("ceiling", "neutral", "tested"),
    [("2x", ("2x",), "2x"), ("3x", (), "3x"), ("1x", (), "3x"), (None, (), "3x")],
)
def test_the_bounds_are_read_at_the_declared_ceiling_first(ceiling, neutral, tested):
    """The baseline itself declares none."""
    found = analyse(study(S11), settings=AnalysisSettings(ceiling=ceiling)).recommendation
    assert (found.ceiling, found.neutral) == (tested, neutral)


def test_a_set_that_fell_is_no_repair_and_blocks_its_gate():
    rows = [(f"t{i:02d}", "1x", 5, 0, 0, 5, 0) for i in range(20)]
    rows += [(f"t{i:02d}", "3x", 2, 8, 0, 0, 0) for i in range(20)]
    result = analyse(study(rows))
    assert result.fallen == ("3x",)
    assert result.recommendation.status is RecommendationStatus.INCONCLUSIVE
    assert verdict_lines(result)[0].startswith(
        "threshold: success fell at 3x (-30.0 points, p = 1.1e-9); "
    )
