"""The life of a study on disk: written by one process, read by any."""

from pytest_infranoise.study.journal import JournalError
from pytest_infranoise.study.manifest import StudyFacts, capture_manifest
from pytest_infranoise.study.redact import Redactor
from pytest_infranoise.study.store import Manifest, Study, load_study
from pytest_infranoise.study.writer import StudyWriter, create_study, new_study_id

__all__ = [
    "JournalError",
    "Manifest",
    "Redactor",
    "Study",
    "StudyFacts",
    "StudyWriter",
    "capture_manifest",
    "create_study",
    "load_study",
    "new_study_id",
]
