"""Two studies, cards or published scores held side by side: configurations first, then the lead."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_infranoise.analysis.entries import (
    SCEPTICAL_BELOW,
    EntryComparison,
    Infrastructure,
    PublishedComparison,
    compare_entries,
    compare_published,
    interaction,
)
from pytest_infranoise.analysis.figures import points, span
from pytest_infranoise.analysis.results import DeclaredBand
from pytest_infranoise.analysis.settings import AnalysisSettings
from pytest_infranoise.errors import UsageError
from pytest_infranoise.report.view import StudyView
from pytest_infranoise.statistics.intervals import Interval
from pytest_infranoise.statistics.paired import Paired
from pytest_infranoise.study.configuration import (
    Difference,
    Weight,
    differences,
    field_differences,
    group,
    unknown_fields,
)

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Band:
    """How far infrastructure moved the score of one study, between two of its sets."""

    source: str
    floor: str
    ceiling: str
    difference: float
    ci95: Interval | None

    @property
    def half_width(self) -> float:
        """How far the band's own interval reaches; 0 where it has none."""
        return 0.0 if self.ci95 is None else (self.ci95[1] - self.ci95[0]) / 2

    @property
    def reach(self) -> float:
        """How far infrastructure may move a score: the band and its own uncertainty."""
        return abs(self.difference) + self.half_width

    def words(self) -> str:
        """Return the band in a line."""
        interval = "" if self.ci95 is None else f" (95% CI {span(self.ci95)})"
        return (
            f"infrastructure band of {self.source}: {points(self.difference)} points from "
            f"{self.floor} to {self.ceiling}{interval}"
        )


@dataclass(frozen=True, slots=True)
class Interaction:
    """The lift of B minus the lift of A, between two pairs of sets."""

    from_sets: Pair
    to_sets: Pair
    result: Paired


@dataclass(frozen=True, slots=True)
class Scores:
    """Two scores of which no trials are known: published figures, or cards."""

    set_a: str | None
    set_b: str | None
    n_tasks: int
    samples: int
    result: PublishedComparison


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """What `infranoise compare` says.

    `differences` are those of the configurations; `entries` paired comparisons, one per pair of
    sets, `scores` unpaired ones. `decides` is the pair whose lead is judged, the others describe.
    `band` is the one that the lead is held against, None where the configurations `match` too.
    """

    names: Pair
    differences: tuple[Difference, ...]
    entries: tuple[EntryComparison, ...] = ()
    scores: tuple[Scores, ...] = ()
    bands: tuple[Band, ...] = ()
    band: Band | None = None
    match: bool = False
    decides: Pair | None = None
    interactions: tuple[Interaction, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def incomparable(self) -> tuple[Difference, ...]:
        """What makes the two incomparable."""
        return tuple(item for item in self.differences if item.weight is Weight.INCOMPARABLE)


def compare_views(
    a: StudyView,
    b: StudyView,
    names: Pair,
    *,
    pairs: Sequence[Pair] = (),
    at: str | None = None,
    band_from: tuple[str, StudyView] | None = None,
) -> ComparisonReport:
    """Compare two studies, paired by task.

    Args:
        a: One study.
        b: The other, whose lead is looked at.
        names: How the lines call them.
        pairs: A set of `a` and the set of `b` to hold against it; none for those of one name.
        at: The set of `a` that decides; None is the first.
        band_from: Name and view of the study whose declared band counts; None takes the larger
            of the two studies' own.

    Raises:
        UsageError: no pair of sets, a set that does not exist, or a study without a band.
    """
    chosen = list(pairs) or _common_pairs(a, b)
    settings = AnalysisSettings(
        fit_only=a.analysis.settings.fit_only or b.analysis.settings.fit_only
    )
    found = differences(a.manifest, b.manifest, chosen)
    decides = _deciding(chosen, at)
    bands = [
        band
        for name, view in zip(names, (a, b), strict=True)
        if (band := _measured_band(name, view, decides) or band_of(name, view))
    ]
    band = max(bands, key=lambda item: item.reach, default=None)
    if band_from is not None:
        band = required_band(*band_from)
        bands.append(band)
    infrastructure = _infrastructure(band, found)
    entries = compare_entries(
        a.table, b.table, chosen, infrastructure=infrastructure, settings=settings
    )
    return ComparisonReport(
        names=names,
        differences=tuple(found),
        entries=tuple(_with_doubt(item, found) for item in entries),
        bands=tuple(bands),
        band=None if infrastructure.match else band,
        match=infrastructure.match,
        decides=decides,
        interactions=tuple(_interactions(a, b, chosen, settings)),
        notes=_notes(a, b),
    )


def compare_cards(
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    names: Pair,
    *,
    at: str | None = None,
    band: Band | None = None,
) -> ComparisonReport:
    """Compare two disclosure cards, unpaired: of the tasks they know no more than the number.

    `at` is the set that decides, None the first; `band` replaces theirs.

    Raises:
        UsageError: they have no parameter set with a score in common.
    """
    sets_a, sets_b = ({item["id"]: item for item in card["parameter_sets"]} for card in (a, b))
    common = [name for name in sets_a if name in sets_b]
    found = [*_card_differences(a, b, common)]
    bands = [
        item for name, card in zip(names, (a, b), strict=True) if (item := _card_band(name, card))
    ]
    band = band or max(bands, key=lambda item: item.reach, default=None)
    scored = [
        name for name in common if None not in (sets_a[name]["success"], sets_b[name]["success"])
    ]
    if not scored:
        raise UsageError(
            f"compare: no parameter set with a score in both; {names[0]} has "
            f"{', '.join(sets_a) or 'none'}, {names[1]} {', '.join(sets_b) or 'none'}"
        )
    n_tasks = min(int(card["tasks"]["number"]) for card in (a, b))
    samples = max(1, min(int(card["samples"][0]) for card in (a, b)))
    decides = _deciding([(name, name) for name in scored], at)
    infrastructure = _infrastructure(band, found)
    scores = []
    for name in scored:
        result = compare_published(
            sets_a[name]["success"],
            sets_b[name]["success"],
            n_tasks=n_tasks,
            samples=samples,
            infrastructure=infrastructure,
        )
        scores.append(Scores(name, name, n_tasks, samples, _doubted(result, found)))
    return ComparisonReport(
        names,
        tuple(found),
        scores=tuple(scores),
        bands=tuple(bands),
        band=None if infrastructure.match else band,
        match=infrastructure.match,
        decides=decides,
    )


def compare_scores(
    scores: tuple[float, float], *, n_tasks: int, samples: int, band: Band | None = None
) -> ComparisonReport:
    """Compare two published percentages, as proportions; of their configurations nothing is known.

    Raises:
        UsageError: a score outside 0 to 1, or no task or sample.
    """
    found = unknown_fields()
    infrastructure = _infrastructure(band, found)
    result = compare_published(
        *scores, n_tasks=n_tasks, samples=samples, infrastructure=infrastructure
    )
    row = Scores(None, None, n_tasks, samples, _doubted(result, found))
    bands = () if band is None else (band,)
    return ComparisonReport(("A", "B"), tuple(found), (), (row,), bands, band)


def band_of(name: str, view: StudyView) -> Band | None:
    """Return a study's declared band; None where there is none, or none of an agent's score."""
    declared = view.analysis.noise_band.declared
    if declared is None or not _has_score(view):
        return None
    return _band(name, declared)


def required_band(name: str, view: StudyView) -> Band:
    """Return a study's declared band.

    Raises:
        UsageError: it has none.
    """
    band = band_of(name, view)
    if band is None:
        why = (
            "its agent is a reference solution, which has no score"
            if view.analysis.settings.fit_only
            else "it needs the baseline and a larger finite multiplier on the same tasks"
        )
        raise UsageError(f"--band-from: {name} has no infrastructure band: {why}")
    return band


def _band(name: str, declared: DeclaredBand) -> Band | None:
    contrast = declared.contrast
    if contrast.difference is None or not math.isfinite(contrast.difference):
        return None
    return Band(name, declared.floor, declared.ceiling, contrast.difference, contrast.ci95)


def _card_band(name: str, card: Mapping[str, Any]) -> Band | None:
    band = card.get("noise_band")
    if not isinstance(band, Mapping):
        return None
    interval = band.get("ci95")
    return Band(
        name,
        str(band["floor"]),
        str(band["ceiling"]),
        float(band["difference"]),
        None if interval is None else (float(interval[0]), float(interval[1])),
    )


def _deciding(pairs: Sequence[Pair], at: str | None) -> Pair:
    """Return the pair whose lead is judged: one that is named before looking, else the first.

    Raises:
        UsageError: there is no such set.
    """
    if at is None:
        return pairs[0]
    for pair in pairs:
        if pair[0] == at:
            return pair
    raise UsageError(
        f"--at: {at!r} is not compared; compared are " + ", ".join(ours for ours, _ in pairs)
    )


def _infrastructure(band: Band | None, found: Sequence[Difference]) -> Infrastructure:
    """Return what configurations that differ thus may add to a lead: nothing if they match."""
    if not _are_unmatched(found):
        return Infrastructure(match=True)
    if band is None:
        return Infrastructure()
    return Infrastructure(abs(band.difference), band.half_width)


def _measured_band(name: str, view: StudyView, pair: Pair) -> Band | None:
    """Return the contrast of the very sets that are compared, where one study measured both."""
    for item in view.analysis.comparisons:
        success = item.success
        sets = {item.baseline, item.parameter_set}
        if sets == set(pair) and success.difference is not None and _has_score(view):
            return Band(name, item.baseline, item.parameter_set, success.difference, success.ci95)
    return None


def _has_score(view: StudyView) -> bool:
    """Whether it is an agent's score that was measured."""
    return not view.analysis.settings.fit_only


def _common_pairs(a: StudyView, b: StudyView) -> list[Pair]:
    """Return the sets of one name up the ladder; a control repeats another and is no entry."""
    controls = {view.analysis.settings.control for view in (a, b)}
    theirs = set(b.table.parameter_sets)
    ladder = () if a.analysis.ladder is None else a.analysis.ladder.steps
    ours = dict.fromkeys((*ladder, *a.table.parameter_sets))
    common = [name for name in ours if name in theirs and name not in controls]
    if not common:
        raise UsageError(
            f"compare: no parameter set in common: {', '.join(a.table.parameter_sets) or 'none'} "
            f"and {', '.join(b.table.parameter_sets) or 'none'}; name pairs with --pair A:B"
        )
    return [(name, name) for name in common]


def _interactions(
    a: StudyView, b: StudyView, pairs: Sequence[Pair], settings: AnalysisSettings
) -> list[Interaction]:
    """Return how far the lead depends on the set: over the declared band, and to its extremes."""
    partner, bands = dict(pairs), a.analysis.noise_band
    found: dict[Pair, Interaction] = {}
    for band in (bands.declared, bands.extremes):
        if band is None or not {band.floor, band.ceiling} <= partner.keys():
            continue
        from_sets = (band.floor, partner[band.floor])
        to_sets = (band.ceiling, partner[band.ceiling])
        result = interaction(
            a.table, b.table, from_sets=from_sets, to_sets=to_sets, settings=settings
        )
        if result is not None:
            found.setdefault((band.floor, band.ceiling), Interaction(from_sets, to_sets, result))
    return list(found.values())


def _notes(a: StudyView, b: StudyView) -> tuple[str, ...]:
    notes = []
    if any(view.is_growing for view in (a, b)):
        notes.append(
            "a study has not ended: figures so far; p-values of repeated looks are nominal"
        )
    if any(view.analysis.settings.fit_only for view in (a, b)):
        notes.append("the reference solution shows whether tasks fit; this is not a model's score")
    return tuple(notes)


def _are_unmatched(found: Sequence[Difference]) -> bool:
    """Whether more than the agents differs, or is not known to be the same."""
    return any(item.weight is not Weight.HARMLESS and not item.is_agent for item in found)


def _is_doubtful(difference: float | None, found: Sequence[Difference]) -> bool:
    """Whether a small lead stands on configurations that are undocumented or unmatched."""
    return _are_unmatched(found) and difference is not None and abs(difference) < SCEPTICAL_BELOW


def _with_doubt(item: EntryComparison, found: Sequence[Difference]) -> EntryComparison:
    doubtful = _is_doubtful(item.contrast.difference, found)
    return replace(item, sceptical=item.sceptical or doubtful)


def _doubted(item: PublishedComparison, found: Sequence[Difference]) -> PublishedComparison:
    return replace(item, sceptical=item.sceptical or _is_doubtful(item.difference, found))


def _card_differences(
    a: Mapping[str, Any], b: Mapping[str, Any], common: Sequence[str]
) -> list[Difference]:
    """Return how two cards differ: tasks, limits per set, every line and every field."""
    found: list[Difference] = []
    for name in ("number", "digest"):
        found += _known_difference(f"tasks, {name}", a["tasks"].get(name), b["tasks"].get(name))
    sets = [{item["id"]: item for item in card["parameter_sets"]} for card in (a, b)]
    for name in common:
        ours, theirs = (side[name].get("limits_digest") for side in sets)
        found += _known_difference(f"limits of {name}, digest", ours, theirs)
    lines = [group(card, "card") for card in (a, b)]
    for label in dict.fromkeys((*lines[0], *lines[1])):
        words = (str(lines[0].get(label, "unknown")), str(lines[1].get(label, "unknown")))
        if words[0] != words[1] or words[0] == "unknown":
            found.append(Difference(label, *words, Weight.DISCLOSE))
    found += field_differences(a["configuration"], b["configuration"])
    return sorted(found, key=lambda item: list(Weight).index(item.weight))


def _known_difference(field: str, ours: Any, theirs: Any) -> list[Difference]:
    """Compare a value that makes two cards incomparable where it is known and differs."""
    if ours == theirs and ours is not None:
        return []
    weight = Weight.DISCLOSE if None in (ours, theirs) else Weight.INCOMPARABLE
    first, second = ("unknown" if value is None else str(value)[:19] for value in (ours, theirs))
    return [Difference(field, first, second, weight)]
