"""A study made ready to be shown: its manifest, its outcomes, their analysis."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from pytest_infranoise.analysis import Analysis, AnalysisSettings, analyse
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.model.resources import Multiplier, ParameterSet
from pytest_infranoise.model.table import OUTCOMES, OutcomeTable
from pytest_infranoise.study.store import Study, table_of

REFERENCE_AGENTS = ("oracle", "nop")


@dataclass(frozen=True)
class StudyView:
    """What a report says of a study.

    `planned` is how many trials were selected, None if unknown; `directory` where the study was
    written, None if nowhere.
    """

    manifest: Mapping[str, Any]
    table: OutcomeTable
    analysis: Analysis
    planned: int | None = None
    directory: str | None = None

    @cached_property
    def outcomes_by_task(self) -> dict[str, dict[str, Counter[Outcome]]]:
        """Counts of the first attempts by task and parameter set id."""
        table = self.table
        counts: dict[str, dict[str, Counter[Outcome]]] = {
            name: defaultdict(Counter) for name in table.tasks
        }
        rows = zip(table.task, table.parameter_set, table.attempt, table.outcome, strict=True)
        for task, parameter_set, attempt, outcome in rows:
            if attempt == 1:
                name = table.parameter_sets[parameter_set]
                counts[table.tasks[task]][name][OUTCOMES[outcome]] += 1
        return counts


def view_study(study: Study, **choices: Any) -> StudyView:
    """Return the view of a study on disk; `choices` are fields of `AnalysisSettings`."""
    data = study.manifest.data
    planned = data.get("planned_trials")
    return _view(data, study.table(), planned, str(study.directory), choices)


def view_records(
    records: Iterable[Mapping[str, Any]],
    manifest: Mapping[str, Any],
    *,
    planned: int | None = None,
    directory: str | None = None,
) -> StudyView:
    """Return the view of records in memory, whatever became of the disk."""
    return _view(manifest, table_of(records, manifest), planned, directory, {})


def _view(
    manifest: Mapping[str, Any],
    table: OutcomeTable,
    planned: int | None,
    directory: str | None,
    choices: Mapping[str, Any],
) -> StudyView:
    analysis = analyse(
        table, sets=parameter_sets(manifest), settings=analysis_settings(manifest, choices)
    )
    return StudyView(manifest, table, analysis, planned, directory)


def parameter_sets(manifest: Mapping[str, Any]) -> list[ParameterSet]:
    """Return the parameter sets that a manifest describes."""

    def multiplier(value: float | None) -> Multiplier:
        return Multiplier(None if value is None else Fraction(str(value)))

    return [
        ParameterSet(
            item["id"],
            multiplier(item["memory_multiplier"]),
            multiplier(item["cpu_multiplier"]),
            multiplier(item["timeout_multiplier"]),
        )
        for item in manifest["parameter_sets"]
        if "memory_multiplier" in item
    ]


def analysis_settings(
    manifest: Mapping[str, Any], choices: Mapping[str, Any] | None = None
) -> AnalysisSettings:
    """Return the settings that follow from how a study was run, with the reader's choices."""
    baseline = manifest.get("baseline")
    equal = [set(pair) for pair in manifest.get("equal_sets", ()) if baseline in pair]
    engine = manifest.get("backend") or {}
    enforcement = engine.get("enforcement")
    derived: dict[str, Any] = {
        "fit_only": manifest.get("agent", {}).get("name") in REFERENCE_AGENTS,
        "same_as_baseline": frozenset().union(*equal) - {baseline},
        "interleaved": manifest.get("order") == "interleaved" if "order" in manifest else None,
        "engine": f"{engine['engine']}, {enforcement}" if engine else None,
        "engine_is_isolating": engine.get("backend") != "local" and enforcement != "watchdog",
    }
    return AnalysisSettings(**{**derived, **(choices or {})})
