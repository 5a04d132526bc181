"""The exceptions of the package.

A command that fails inside a sandbox is a value (`StepResult`), never one of these.
"""

import re
from collections.abc import Sequence

LISTED_AT_ONCE = 10
"""So many refusals are shown each by itself; more are grouped by kind."""
_FIRST_PLACES = 3


class InfranoiseError(Exception):
    """The root of every exception this package raises on purpose."""


class UsageError(InfranoiseError):
    """The user's input cannot be used: one line that names the place, the field and the fix.

    Raised before any trial runs; the plugin prints it without a traceback.
    """


class MarkedUsageError(UsageError):
    """A usage error within a text: the message, and below it the text with a caret at the mistake.

    `position` counts characters of `text` from 0; it may be the text's end.
    """

    def __init__(self, message: str, text: str, position: int) -> None:
        shown = "".join(char if char.isprintable() else "?" for char in text)
        super().__init__(f"{message}\n  {shown}\n  {' ' * position}^")


class BackendUnavailableError(UsageError):
    """No engine answers; the message lists what was tried."""


class SandboxError(InfranoiseError):
    """The provider of a sandbox failed, as opposed to the command that ran in it.

    `cause` is a value of `model.outcome.Cause` and becomes the trial's cause of an `infra_error`.
    """

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause


def listing(errors: Sequence[str]) -> str:
    """Return refusals, a line each; of many, a line per kind with its count and first places.

    A refusal is `PLACE: what is wrong`; those that differ in places, numbers and quoted names alone
    are of one kind.
    """
    if len(errors) <= LISTED_AT_ONCE:
        return "\n".join(errors)
    kinds: dict[str, list[str]] = {}
    for error in errors:
        said = error.partition(": ")[2] or error
        kind = re.sub(r"'[^']*'|\"[^\"]*\"|\S*\d\S*", "_", said)
        kinds.setdefault(kind, []).append(error)
    return "\n".join(map(_of_one_kind, kinds.values()))


def _of_one_kind(errors: Sequence[str]) -> str:
    others = [error.partition(": ")[0] for error in errors[1:]]
    if not others:
        return errors[0]
    shown, hidden = "; ".join(others[:_FIRST_PLACES]), len(others) - _FIRST_PLACES
    more = f" and {hidden} more" if hidden > 0 else ""
    return f"{errors[0]}\n  {len(errors)} of this kind, also: {shown}{more}"
