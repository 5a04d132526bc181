from pathlib import Path


def test_median() -> None:
    assert Path("/app/median.txt").read_text().strip() == "749999"
