"""The reference cases, computed in R and checked with statsmodels."""

import json
from pathlib import Path
from typing import Any

import numpy as np

_FILE = Path(__file__).parent.parent / "reference" / "statistics_cases.json"
CASES: dict[str, dict[str, Any]] = {
    case["id"].split("_")[0]: case
    for case in json.loads(_FILE.read_text(encoding="utf-8"))["cases"]
}
TOLERANCE = 1e-6


def cells(case: dict[str, Any], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Passed trials and trials per task of one configuration, in the order of the rows."""
    rows = [row for row in case["input"]["rows"] if row[1] == name]
    return np.array([row[2] for row in rows]), np.array([sum(row[2:]) for row in rows])
