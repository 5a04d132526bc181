"""One trial's life: admission, sandbox, phases, evidence, record.

`run_trial` is the life of a benchmark task's trial; a Python test's trial drives the same
`LiveTrial` from a fixture. Whatever happens inside, the guarantee is given back and the sandbox is
removed; a trial that is interrupted leaves no record.
"""

from pytest_infranoise.trial.context import TrialContext
from pytest_infranoise.trial.life import LiveTrial
from pytest_infranoise.trial.run import run_trial

__all__ = ["LiveTrial", "TrialContext", "run_trial"]
