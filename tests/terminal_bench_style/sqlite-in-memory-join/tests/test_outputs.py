from pathlib import Path


def test_pairs() -> None:
    assert Path("/app/pairs.txt").read_text().strip() == "499997"
