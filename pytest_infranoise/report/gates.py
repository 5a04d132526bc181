"""Gates as lines for people and as data for programs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pytest_infranoise.analysis.gate_grammar import Gate
from pytest_infranoise.analysis.gates import GateResult, GateVerdict, judge
from pytest_infranoise.report.model import Line, Style, one_line
from pytest_infranoise.report.view import StudyView
from pytest_infranoise.study.sessions import missing_shards

_WORDS: dict[GateVerdict, tuple[str, Style]] = {
    GateVerdict.PASSED: ("passed", "good"),
    GateVerdict.FAILED: ("failed", "bad"),
    GateVerdict.UNDECIDED: ("not decidable", "warn"),
}


def judge_view(view: StudyView, gates: Sequence[Gate]) -> tuple[GateResult, ...]:
    """Judge gates by a study's analysis.

    A trial that was selected and has no record is missing, and so are whole shards that a merge
    lacks: without them no gate can pass.
    """
    ended_early = view.manifest.get("decided_at_look") is not None
    missing = 0
    if view.planned is not None and not ended_early:
        missing = max(0, view.planned - view.analysis.n_trials)
    results = judge(view.analysis, gates, missing=missing)
    lacking = missing_shards(view.manifest.get("shards"))
    return tuple(_without_shards(item, lacking) for item in results) if lacking else results


def _without_shards(result: GateResult, lacking: Sequence[int]) -> GateResult:
    if result.verdict is not GateVerdict.PASSED:
        return result
    reason = f"of the shards {', '.join(map(str, lacking))} are missing; so far {result.reason}"
    return replace(result, verdict=GateVerdict.UNDECIDED, reason=reason)


def undecided(gates: Sequence[Gate], reason: str) -> tuple[GateResult, ...]:
    """Return the results of gates that could not be judged at all."""
    return tuple(GateResult(gate, GateVerdict.UNDECIDED, reason) for gate in gates)


def gate_lines(results: Sequence[GateResult]) -> list[Line]:
    """Return one line per gate."""
    lines = []
    for item in results:
        word, style = _WORDS[item.verdict]
        text = f"gate {word}: {one_line(item.gate.text, 100)}: {one_line(item.reason, 400)}"
        lines.append(Line(text, style))
    return lines


def gates_json(results: Sequence[GateResult]) -> list[dict[str, Any]]:
    """Return builtins only; `verdict` is passed, failed or undecided."""
    return [
        {"gate": item.gate.text, "verdict": str(item.verdict), "reason": item.reason}
        for item in results
    ]


def all_passed(results: Sequence[GateResult]) -> bool:
    """Whether every gate passed; one that could not be decided did not."""
    return all(item.verdict is GateVerdict.PASSED for item in results)
