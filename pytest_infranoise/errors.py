"""The exceptions of the package.

A command that fails inside a sandbox is a value (`StepResult`), never one of these.
"""


class InfranoiseError(Exception):
    """The root of every exception this package raises on purpose."""


class UsageError(InfranoiseError):
    """The user's input cannot be used: one line that names the place, the field and the fix.

    Raised before any trial runs; the plugin prints it without a traceback.
    """


class BackendUnavailableError(UsageError):
    """No engine answers; the message lists what was tried."""


class SandboxError(InfranoiseError):
    """The provider of a sandbox failed, as opposed to the command that ran in it.

    `cause` is a value of `model.outcome.Cause` and becomes the trial's cause of an `infra_error`.
    """

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause
