"""What type checkers know of the public names; `__init__.py` imports them when asked."""

from pytest_infranoise.agents.base import AgentResult as AgentResult
from pytest_infranoise.agents.base import AgentStep as AgentStep
from pytest_infranoise.agents.host import AgentDeadlineError as AgentDeadlineError
from pytest_infranoise.agents.host import AgentSandbox as AgentSandbox
from pytest_infranoise.analysis import Analysis as Analysis
from pytest_infranoise.analysis import AnalysisSettings as AnalysisSettings
from pytest_infranoise.analysis import analyse as analyse
from pytest_infranoise.backends.base import Sandbox as Sandbox
from pytest_infranoise.backends.base import StepResult as StepResult
from pytest_infranoise.errors import InfranoiseError as InfranoiseError
from pytest_infranoise.errors import SandboxError as SandboxError
from pytest_infranoise.errors import UsageError as UsageError
from pytest_infranoise.model.outcome import Cause as Cause
from pytest_infranoise.model.outcome import Classification as Classification
from pytest_infranoise.model.outcome import Ending as Ending
from pytest_infranoise.model.outcome import Evidence as Evidence
from pytest_infranoise.model.outcome import Outcome as Outcome
from pytest_infranoise.model.outcome import Phase as Phase
from pytest_infranoise.model.resources import Allocation as Allocation
from pytest_infranoise.model.resources import ParameterSet as ParameterSet
from pytest_infranoise.model.resources import ResourceSpec as ResourceSpec
from pytest_infranoise.model.task import Healthcheck as Healthcheck
from pytest_infranoise.model.task import ImageSource as ImageSource
from pytest_infranoise.model.task import Task as Task
from pytest_infranoise.model.task import TaskStep as TaskStep
from pytest_infranoise.model.trial import PhaseRecord as PhaseRecord
from pytest_infranoise.model.trial import TrialPlan as TrialPlan
from pytest_infranoise.model.trial import TrialRecord as TrialRecord
from pytest_infranoise.model.usage import Usage as Usage
from pytest_infranoise.plugin.sandbox import ExecResult as ExecResult
from pytest_infranoise.plugin.sandbox import InfraSandbox as InfraSandbox
from pytest_infranoise.report.view import StudyView as StudyView
from pytest_infranoise.report.view import view_study as view_study
from pytest_infranoise.study.store import Manifest as Manifest
from pytest_infranoise.study.store import Study as Study
from pytest_infranoise.study.store import load_study as load_study
from pytest_infranoise.tasks.digest import directory_digest as directory_digest

__version__: str
