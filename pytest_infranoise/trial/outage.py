"""A failure of the provider, and whether its engine was away: then nothing was measured.

A parameter set is not to blame for an engine that answers nobody. Only what the engine itself shows
right after the failure counts as proof; without it the failure stays what it was.
"""

from dataclasses import replace

from pytest_infranoise.backends.base import Backend
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import Cause, Classification

_AT_ONCE = (Cause.ENGINE, Cause.SANDBOX_START, Cause.IMAGE)
_IN_THE_END = (*_AT_ONCE, Cause.SANDBOX_LOST)
"""An engine that is shut down ends its containers before it stops to answer."""


def name_outage(error: SandboxError, backend: Backend) -> SandboxError:
    """Return a failure under the cause that it has where the engine is found to be away."""
    if error.cause in _AT_ONCE and (outage := backend.outage()) is not None:
        return SandboxError(Cause.ENGINE_AWAY, f"{outage}; {error}")
    return error


def judge_outage(judged: Classification, backend: Backend) -> Classification:
    """Return what a trial was, once it is over, where the engine is found to be away."""
    if judged.cause in _IN_THE_END and (outage := backend.outage()) is not None:
        return replace(judged, cause=Cause.ENGINE_AWAY, detail=f"{outage}; {judged.detail}")
    return judged
