import json
from collections import Counter
from pathlib import Path


def test_counts() -> None:
    expected = Counter((n * n + n // 7) % 10 for n in range(3_000_000))
    assert json.loads(Path("/app/counts.json").read_text()) == [expected[d] for d in range(10)]
