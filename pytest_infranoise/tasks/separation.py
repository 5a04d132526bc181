"""Whether a verifier has a sandbox of its own."""

from pytest_infranoise.tasks.schema import TaskFile, VerifierTable


def is_separate(file: TaskFile, table: VerifierTable) -> bool:
    """Whether a verifier (the task's, or a step's) has a sandbox of its own.

    A step that says nothing does as the task does.
    """
    for level in (table, file.verifier):
        if level.environment_mode is not None:
            return level.environment_mode == "separate"
        if level.environment is not None:
            return True
    return False
