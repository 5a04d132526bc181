"""A study's outcomes in, an Analysis out: the only caller of statistics/."""

from pytest_infranoise.analysis.analyse import analyse
from pytest_infranoise.analysis.results import (
    Analysis,
    Comparison,
    DeclaredBand,
    Kills,
    Measure,
    MeasureContrast,
    Movement,
    NoiseBand,
    Recommendation,
    SetResult,
    Shift,
    Status,
    TaskShift,
)
from pytest_infranoise.analysis.settings import AnalysisSettings
from pytest_infranoise.analysis.words import verdict_lines
from pytest_infranoise.statistics.recommend import RecommendationStatus

__all__ = [
    "Analysis",
    "AnalysisSettings",
    "Comparison",
    "DeclaredBand",
    "Kills",
    "Measure",
    "MeasureContrast",
    "Movement",
    "NoiseBand",
    "Recommendation",
    "RecommendationStatus",
    "SetResult",
    "Shift",
    "Status",
    "TaskShift",
    "analyse",
    "verdict_lines",
]
