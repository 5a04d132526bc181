from pathlib import Path


def test_sorted() -> None:
    lines = set(Path("/app/log.txt").read_text().splitlines())
    expected = sorted(lines, key=lambda line: (int(line.split()[1]), line.split()[0]))
    assert Path("/app/sorted.txt").read_text().splitlines() == expected
