"""`--infra-gate`: what the study must show, read before anything runs and judged at its end."""

from collections.abc import Sequence

from pytest_infranoise.analysis.gate_grammar import Gate, KnownSets, parse_gate
from pytest_infranoise.analysis.gates import GateResult, GateVerdict
from pytest_infranoise.model.resources import ParameterSet, baseline_of
from pytest_infranoise.plugin.recorder import StudyRecorder


def parse_gates(
    texts: Sequence[str], *, where: str, sets: Sequence[ParameterSet]
) -> tuple[Gate, ...]:
    """Read the gates of a run with these parameter sets.

    Raises:
        UsageError: one is none, or names a parameter set that the run does not have.
    """
    known = KnownSets([item.id for item in sets], baseline_of(sets).id)
    return tuple(parse_gate(text, where=where, sets=known) for text in texts)


def judge_session(recorder: StudyRecorder) -> tuple[GateResult, ...]:
    """Judge the gates of a session that has ended; what cannot be judged did not pass."""
    from pytest_infranoise.plugin.summary import session_view
    from pytest_infranoise.report.gates import judge_view, undecided

    gates = recorder.runtime.settings.gates
    if not gates or recorder.runtime.settings.dry_run:
        return ()
    if not recorder.all_records:
        return undecided(gates, "no trial ended")
    try:
        return judge_view(session_view(recorder), gates)
    except Exception as error:  # noqa: BLE001 - a gate that cannot be judged must not pass
        return undecided(gates, f"the analysis failed: {type(error).__name__}: {error}")


def count_words(results: Sequence[GateResult]) -> str | None:
    """Say how many gates did not pass; None if all did."""
    failed = sum(item.verdict is GateVerdict.FAILED for item in results)
    undecided = sum(item.verdict is GateVerdict.UNDECIDED for item in results)
    parts = [f"{failed} failed"] if failed else []
    parts += [f"{undecided} not decidable"] if undecided else []
    return f"of {len(results)} gate(s), {' and '.join(parts)}" if parts else None
