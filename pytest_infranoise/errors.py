"""The exceptions of the package.

A command that fails inside a sandbox is a value (`StepResult`), never one of these.
"""


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
