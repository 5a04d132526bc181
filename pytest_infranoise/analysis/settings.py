"""What the reader may choose about an analysis."""

from dataclasses import dataclass, field

from pytest_infranoise.errors import UsageError
from pytest_infranoise.statistics.sequential import Look


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisSettings:
    """The choices behind an analysis; the defaults are those of docs/statistics.md.

    Attributes:
        alpha: The error rate of each claim, and of each Holm family.
        margin: The largest difference that does not matter, a proportion.
        tie: Infra error rates closer than this count as equal when a multiplier is recommended.
        fit_only: The agent is the oracle or nop: samples hold no information about an agent.
        timeouts_are_infra: Count timeouts as infra errors instead of failures of the agent.
        control: The id of the parameter set that repeats the baseline (A/A control), if one ran.
        same_as_baseline: Sets whose effective limits equal the baseline's; they get no contrast.
        dimension: memory, cpu or timeout: the one dimension that trend and recommendation follow
            in a cross product, the others held at the baseline's.
        floor: The lower end of the declared noise band; None is the baseline.
        ceiling: The upper end, and the set whose bounds are tested first; None is the largest
            finite multiplier up to 3x.
        interleaved: Whether the sets ran in randomised blocks; None is unknown.
        engine: Backend and enforcement method in words, named by the verdict.
        engine_is_isolating: False for the local backend and the watchdog, whose recommendations
            are withheld until the reader accepts them by name.
        accept_engine: The reader's acceptance.
        records_kills: Whether a memory kill is an outcome of its own; False where another tool's
            results hold it among failures, so that nothing about kills can be concluded.
        look: The planned look that this analysis is, in a study that stops when it is decided.
        unplanned_looks: How often the study was analysed outside a plan while it grew.

    Raises:
        UsageError: `alpha` or `margin` is out of range.
    """

    alpha: float = 0.05
    margin: float = 0.03
    tie: float = 0.005
    fit_only: bool = False
    timeouts_are_infra: bool = False
    control: str | None = None
    same_as_baseline: frozenset[str] = field(default_factory=frozenset)
    dimension: str | None = None
    floor: str | None = None
    ceiling: str | None = None
    interleaved: bool | None = None
    engine: str | None = None
    engine_is_isolating: bool = True
    accept_engine: bool = False
    records_kills: bool = True
    look: Look | None = None
    unplanned_looks: int = 0

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("alpha", self.alpha, 0.0, 0.5),
            ("margin", self.margin, 0.0, 1.0),
        ):
            if not low < value < high:
                raise UsageError(f"{name}: {value:g} must lie between {low:g} and {high:g}")

    @property
    def alpha_difference(self) -> float:
        """The level at which a set counts as different, at this look."""
        return self.alpha if self.look is None else self.look.level_difference

    @property
    def alpha_equivalence(self) -> float:
        """The level at which a set counts as equivalent, at this look."""
        return self.alpha if self.look is None else self.look.level_equivalence
