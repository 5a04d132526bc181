"""How far infrastructure alone moves the score of this study."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from pytest_infranoise.analysis.ladder import Ladder
from pytest_infranoise.analysis.results import (
    Comparison,
    DeclaredBand,
    Measure,
    MeasureContrast,
    NoiseBand,
    SetResult,
)
from pytest_infranoise.analysis.settings import AnalysisSettings
from pytest_infranoise.statistics.spread import Spread

_Z975 = 1.959963984540054


class _Contrasting(Protocol):
    @property
    def names(self) -> Sequence[str]: ...
    @property
    def ladder(self) -> Ladder: ...
    @property
    def settings(self) -> AnalysisSettings: ...
    def contrast(self, measure: Measure, a: str, b: str) -> MeasureContrast: ...


def noise_band(
    study: _Contrasting,
    ceiling: str | None,
    comparisons: Sequence[Comparison],
    control: Comparison | None,
    spreads: Mapping[Measure, Spread],
    results: Sequence[SetResult],
) -> NoiseBand:
    """Return every part of the noise band that this study can tell, up to the declared ceiling."""
    ladder, settings = study.ladder, study.settings
    floor = settings.floor or ladder.baseline
    uncapped = next((name for name in ladder.above if name not in ladder.candidates), None)
    success = next(item.success for item in results if item.is_baseline)
    fixed = None if success is None else success.se_fixed
    return NoiseBand(
        rerun=None if fixed is None or settings.fit_only else _Z975 * fixed,
        sampling=None if success is None else success.se_task,
        declared=_band(study, comparisons, floor, ceiling),
        extremes=_band(study, comparisons, ladder.baseline, uncapped),
        spread=spreads.get(Measure.SUCCESS),
        control=None if control is None else control.success,
    )


def _band(
    study: _Contrasting, comparisons: Sequence[Comparison], floor: str, ceiling: str | None
) -> DeclaredBand | None:
    if ceiling is None or ceiling == floor:
        return None
    for item in comparisons:
        if (item.baseline, item.parameter_set) == (floor, ceiling):
            return DeclaredBand(floor, ceiling, item.success)
    return DeclaredBand(floor, ceiling, study.contrast(Measure.SUCCESS, floor, ceiling))
