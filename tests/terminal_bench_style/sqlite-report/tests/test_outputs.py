import sqlite3
from pathlib import Path


def test_top() -> None:
    assert Path("/app/top.txt").read_text().split() == ["Dora", "Anna", "Carl"]


def test_database_is_loaded() -> None:
    with sqlite3.connect("/app/shop.db") as database:
        assert database.execute("SELECT COUNT(*) FROM bill").fetchone() == (6,)
