"""Measure how much memory and CPU limits move the scores of an agentic coding benchmark.

What users import stands here: in a `conftest.py` with hooks, in an agent that is a Python function,
and in a program that reads studies. Everything else in the package is private and may change.

This module runs at every pytest start, so it imports nothing before a name is asked for.
"""

__version__ = "0.1.0"

_HOMES = {
    "agents.base": ("AgentResult", "AgentStep"),
    "agents.host": ("AgentDeadlineError", "AgentSandbox"),
    "analysis": ("Analysis", "AnalysisSettings", "analyse"),
    "backends.base": ("Sandbox", "StepResult"),
    "errors": ("InfranoiseError", "SandboxError", "UsageError"),
    "model.outcome": ("Cause", "Classification", "Ending", "Evidence", "Outcome", "Phase"),
    "model.resources": ("Allocation", "ParameterSet", "ResourceSpec"),
    "model.task": ("Healthcheck", "ImageSource", "Task", "TaskStep"),
    "model.trial": ("PhaseRecord", "TrialPlan", "TrialRecord"),
    "model.usage": ("Usage",),
    "plugin.sandbox": ("ExecResult", "InfraSandbox"),
    "report.view": ("StudyView", "view_study"),
    "study.store": ("Manifest", "Study", "load_study"),
    "tasks.digest": ("directory_digest",),
}
"""The module that each public name comes from; `__init__.pyi` says the same to type checkers."""

_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_MODULE_OF)]


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
