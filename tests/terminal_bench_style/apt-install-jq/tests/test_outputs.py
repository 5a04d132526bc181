import shutil
from pathlib import Path


def test_jq_is_installed() -> None:
    assert shutil.which("jq")


def test_name() -> None:
    assert Path("/app/name.txt").read_text() == "harbour seal\n"
