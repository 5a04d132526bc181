from pathlib import Path


def test_answer() -> None:
    column = 4_000_000 * 3_999_999 // 2
    row = sum(i * i % 97 for i in range(4_000_000))
    assert int(Path("/app/answer.txt").read_text()) == column * row % 1_000_003
