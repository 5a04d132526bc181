"""Whether a marked test's trial has passed: what pytest's reports say of it, whoever made them so.

Subtests, soft assertions, hooks that rewrite a report, expected failures and errors of teardown are
no exception out of the test's body. So the trial's record is made for either verdict when the body
has ended, and the reports choose: here as far as they are known, and once more, when the last one
is there, where the study is kept.
"""

from dataclasses import dataclass
from typing import Any

import pytest

from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.model.trial import TrialRecord

ENDED = pytest.StashKey["Ended"]()
"""On a marked test whose body has ended: its record for either verdict."""

HAS_FAILED = pytest.StashKey[bool]()
"""On a marked test of which a report has failed: a subtest's, or that of a finaliser."""

VERDICTS = (AssertionError, pytest.fail.Exception, SandboxError)
"""What a test raises to say that the trial failed; anything else is an error of the test itself."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What a trial is recorded as, if its test fails and if it passes."""

    if_failed: TrialRecord
    if_passed: TrialRecord

    def chosen(self, *, passed: bool) -> TrialRecord:
        """Return the record for a verdict."""
        return self.if_passed if passed else self.if_failed

    def is_left_out_by(self, report: pytest.TestReport) -> bool:
        """Whether the test has skipped itself, and nothing that is a result had happened before.

        A skip says nothing of the trial; a kill, a deadline and a lost sandbox do.
        """
        is_skip = report.skipped and not hasattr(report, "wasxfail")
        return is_skip and self.if_failed.outcome is Outcome.FAILED


def is_error_of_test(call: pytest.CallInfo[Any]) -> bool:
    """Whether a phase ended by something else than a failed assertion."""
    return call.excinfo is not None and not isinstance(call.excinfo.value, VERDICTS)
