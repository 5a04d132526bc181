"""What the trials of one process share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_infranoise.admission import AdmissionLedger, Admit, Budget
from pytest_infranoise.agents.base import Agent
from pytest_infranoise.backends.base import Backend
from pytest_infranoise.model.enforcement import DEFAULT_ENFORCEMENT, Enforcement
from pytest_infranoise.model.outcome import Classification
from pytest_infranoise.model.task import Leftovers


@dataclass(frozen=True, slots=True)
class TrialContext:
    """What all trials of one process share.

    `admit` says whether the guarantee or the kill threshold is reserved on the host. `environment`
    holds host variables that the user passes through by name; their values are never recorded.
    `should_stop` is asked while a trial waits for admission, `tell_wait` is told of what.
    `ceiling_bytes` is what all trials of the run together may use, None for no ceiling.
    `reclassify` gets a trial's `task`, `plan`, `evidence`, `phases` (records) and `classification`
    as keywords, and returns the final classification, with a note if it is another one.
    """

    backend: Backend
    agent: Agent
    ledger: AdmissionLedger
    budget: Budget
    worker: str
    owner: str
    admit: Admit = "guarantee"
    leftovers: Leftovers = "keep"
    enforcement: Enforcement = DEFAULT_ENFORCEMENT
    ceiling_bytes: int | None = None
    pass_threshold: float = 1.0
    environment: Mapping[str, str] = field(default_factory=dict)
    masked_paths: Sequence[Path] = ()
    should_stop: Callable[[], bool] = lambda: False
    tell_wait: Callable[[str], None] = lambda words: None
    reclassify: Callable[..., tuple[Classification, str | None]] | None = None
