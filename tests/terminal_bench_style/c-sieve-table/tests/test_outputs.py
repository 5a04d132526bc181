from pathlib import Path


def test_count() -> None:
    assert Path("/app/count.txt").read_text().strip() == "2433654"


def test_it_is_compiled() -> None:
    assert Path("/app/sieve").read_bytes().startswith(b"\x7fELF")
