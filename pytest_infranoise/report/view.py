"""A study made ready to be shown: its manifest, its outcomes, their analysis."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from pytest_infranoise.analysis import Analysis, AnalysisSettings, analyse
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.enforcement import enforcement_words
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.model.resources import Multiplier, ParameterSet
from pytest_infranoise.model.table import OUTCOMES, OutcomeTable
from pytest_infranoise.statistics.sequential import Look
from pytest_infranoise.study.accounts import Accounts
from pytest_infranoise.study.imported_source import records_kills, source_notes
from pytest_infranoise.study.looks import count_looks
from pytest_infranoise.study.sessions import accepted_changes, missing_shards
from pytest_infranoise.study.store import Manifest, Study, table_of

REFERENCE_AGENTS = ("oracle", "nop")


@dataclass(frozen=True)
class StudyView:
    """What a report says of a study.

    `planned` is how many trials were selected, None if unknown; `directory` where the study was
    written, None if nowhere; `is_growing` whether it was read from a disk before it had ended.
    `notes` say in words which records are left out of the figures, and why. `accounts` are what
    agents said that they have used, and the attempts that measured nothing.
    """

    manifest: Mapping[str, Any]
    table: OutcomeTable
    analysis: Analysis
    planned: int | None = None
    directory: str | None = None
    is_growing: bool = False
    notes: tuple[str, ...] = ()
    accounts: Accounts = field(default_factory=Accounts)

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


def view_study(study: Study, *, baseline: str | None = None, **choices: Any) -> StudyView:
    """Return the view of a study on disk.

    Args:
        study: The study, finished or not.
        baseline: The set that the others are compared with; None is the study's own.
        choices: Fields of `AnalysisSettings`.

    Raises:
        UsageError: The study cannot be read, or a choice names none of its parameter sets.
    """
    data = study.manifest.data
    planned, accounts = data.get("planned_trials"), Accounts()
    return _view(
        data,
        study.table(accounts),
        accounts,
        baseline=baseline,
        choices={"unplanned_looks": count_looks(study.directory), **choices},
        planned=planned if isinstance(planned, int) else None,
        directory=str(study.directory),
        is_growing=not study.manifest.is_finished,
    )


def view_records(
    records: Iterable[Mapping[str, Any]],
    manifest: Mapping[str, Any],
    *,
    planned: int | None = None,
    directory: str | None = None,
    **choices: Any,
) -> StudyView:
    """Return the view of records in memory, whatever became of the disk: all there will be.

    `choices` are fields of `AnalysisSettings`.
    """
    accounts = Accounts()
    table = table_of(records, manifest, accounts)
    return _view(manifest, table, accounts, choices=choices, planned=planned, directory=directory)


def _view(
    manifest: Mapping[str, Any],
    table: OutcomeTable,
    accounts: Accounts,
    *,
    choices: Mapping[str, Any],
    baseline: str | None = None,
    planned: int | None = None,
    directory: str | None = None,
    is_growing: bool = False,
) -> StudyView:
    own = Manifest(manifest).baseline
    chosen = own if baseline is None else baseline
    settings = analysis_settings(manifest, choices, baseline=chosen)
    notes = [*_part_notes(manifest)]
    if settings.control is not None and chosen != own:
        # Nothing is known of noise around another set, and a repeated rung would bend the ladder.
        if settings.control in table.parameter_sets:
            table = table.without_set(settings.control)
        notes.append(f"A/A control {settings.control} left out: it repeats {own}, not {chosen}")
        settings = replace(settings, control=None)
    look = settings.look or final_look(manifest, table, is_growing=is_growing)
    settings = replace(settings, look=look)
    if look is not None and look.number < look.of:
        whole, table = len(table), table.up_to_sample(look.samples)
        notes.append(_decided_words(look, whole - len(table)))
    analysis = analyse(table, sets=parameter_sets(manifest), baseline=chosen, settings=settings)
    return StudyView(
        manifest, table, analysis, planned, directory, is_growing, tuple(notes), accounts
    )


def _part_notes(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Say what of its study this is not, and what changed while it ran."""
    yield from source_notes(manifest)
    if unselected := manifest.get("unselected_trials"):
        yield (
            f"{unselected} trial(s) of these tasks were not selected (id, -k, --lf, --deselect), "
            "so sets may differ in what ran"
        )
    if changed := accepted_changes(manifest):
        yield f"the study went on although it had changed: {'; '.join(changed)}"
    if shard := manifest.get("shard"):
        yield f"shard {shard['number']} of {shard['of']} alone; infranoise merge puts them together"
    if missing := missing_shards(manifest.get("shards")):
        yield f"of the study's shards {', '.join(map(str, missing))} are missing"


def _decided_words(look: Look, later: int) -> str:
    words = f"decided after {look.samples} of {look.max_samples} samples: later ones are not needed"
    if later:
        words += f" ({later} of their trials had begun; they are recorded and in no figure)"
    return words


def final_look(
    manifest: Mapping[str, Any], table: OutcomeTable, *, is_growing: bool = False
) -> Look | None:
    """Return the planned look that a study's last analysis is; None in a study without looks.

    That is the look at which everything was decided, else the last one, with its level also where
    the study was stopped before (fewer looks than planned cost no error rate). A look at a study
    that grows on is none of the planned.

    Raises:
        UsageError: the manifest's looks are not as this program writes them.
    """
    looks = planned_looks_of(manifest)
    decided = manifest.get("decided_at_look")
    for look in looks:
        if look.number == decided:
            return look
    if not looks or is_growing:
        return None
    samples = max(table.sample, default=0)
    return replace(looks[-1], samples=min(samples, looks[-1].samples))


def planned_looks_of(manifest: Mapping[str, Any]) -> list[Look]:
    """Return the looks that were planned when the study began.

    Raises:
        UsageError: they are not as this program writes them.
    """
    try:
        looks = [Look(**item) for item in manifest.get("planned_looks") or ()]
        numbers = [value for look in looks for value in asdict(look).values()]
        if any(isinstance(value, bool) or not isinstance(value, int | float) for value in numbers):
            raise TypeError
    except TypeError:
        raise UsageError("manifest: planned_looks are not as this program writes them") from None
    return looks


def parameter_sets(manifest: Mapping[str, Any]) -> list[ParameterSet]:
    """Return the parameter sets that a manifest describes; of some it may know the id alone.

    Raises:
        UsageError: a multiplier is none.
    """
    return [
        ParameterSet(
            str(item["id"]),
            *(
                _multiplier(item, f"{dimension}_multiplier")
                for dimension in ("memory", "cpu", "timeout")
            ),
        )
        for item in manifest["parameter_sets"]
        if "memory_multiplier" in item
    ]


def _multiplier(item: Mapping[str, Any], name: str) -> Multiplier:
    value = item.get(name, 1)
    if value is None:
        return Multiplier(None)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise UsageError(
            f"manifest: parameter set {item['id']}: {name} {value!r} is not a multiplier"
        )
    return Multiplier(Fraction(str(value)))


def analysis_settings(
    manifest: Mapping[str, Any],
    choices: Mapping[str, Any] | None = None,
    *,
    baseline: str | None = None,
) -> AnalysisSettings:
    """Return the settings that follow from how a study was run, with the reader's choices."""
    facts = Manifest(manifest)
    engine, order = facts.backend, manifest.get("order")
    derived: dict[str, Any] = {
        "fit_only": facts.agent.get("name") in REFERENCE_AGENTS,
        "records_kills": records_kills(manifest),
        "control": manifest.get("control"),
        "ceiling": _ceiling(manifest),
        "same_as_baseline": _equal_to(baseline or facts.baseline, facts.equal_sets),
        "interleaved": None if order is None else order in ("interleaved", "file"),
        "engine": f"{engine.get('engine')}, {enforcement_words(manifest)}" if engine else None,
        "engine_is_isolating": engine.get("is_isolating", engine.get("backend") != "local")
        and engine.get("enforcement") != "watchdog",
    }
    return AnalysisSettings(**{**derived, **(choices or {})})


def _ceiling(manifest: Mapping[str, Any]) -> str | None:
    """Return the ceiling that was declared before the first trial; None for the default."""
    name = manifest.get("ceiling")
    return name if isinstance(name, str) else None


def _equal_to(baseline: str | None, equal_sets: Sequence[tuple[str, str]]) -> frozenset[str]:
    """Return the sets whose effective limits are the baseline's."""
    return frozenset(name for pair in equal_sets if baseline in pair for name in pair) - {baseline}
