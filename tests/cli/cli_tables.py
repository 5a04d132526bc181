"""Tables of counts as the commands read them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HEADER = "task,parameter_set,passed,failed,timeout,oom,infra_error"
CASES: dict[str, dict[str, Any]] = {
    case["id"].split("_")[0]: case
    for case in json.loads(
        (Path(__file__).parent.parent / "reference" / "statistics_cases.json").read_text("utf-8")
    )["cases"]
}


def table(rows: Iterable[Sequence[object]]) -> str:
    return "\n".join([HEADER, *(",".join(map(str, row)) for row in rows)]) + "\n"
