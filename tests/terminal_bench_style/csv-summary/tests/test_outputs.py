import json
from pathlib import Path


def test_totals() -> None:
    totals = json.loads(Path("/app/totals.json").read_text())
    assert totals == {"north": 30, "south": 12, "west": 5}
