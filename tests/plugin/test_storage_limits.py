"""Disk limits in real trials, on an engine that can have them and on one that cannot."""

import json
from typing import Any

import pytest
from bench import Bench

FILL = "dd if=/dev/zero of=/app/big bs=1M count=200 2>/dev/null;"


@pytest.fixture
def storage_problem(docker_backend: Any) -> str | None:
    problem: str | None = docker_backend._storage_problem
    return problem


def test_disk_space_is_limited_or_said_not_to_be(
    one_bench: Bench, storage_problem: str | None
) -> None:
    for name, solve in (("fills", f"{FILL} true"), ("modest", "touch /app/done")):
        one_bench.task(name, solve, environment='storage = "64M"')
    test = "[ $(wc -c </app/big 2>/dev/null || echo 0) -lt 70000000 ] && [ -e /app/done ]"
    script = one_bench.path / "bench" / "fills" / "tests" / "test.sh"
    script.write_text(f"#!/bin/sh\n{test} && echo 1 >/logs/verifier/reward.txt\n")
    result = one_bench.run("--infra-multipliers=1", "-n0")
    records = {item["task"]: item for item in one_bench.records()}
    manifest = json.loads((one_bench.studies()[-1] / "manifest.json").read_text())
    assert manifest["backend"]["details"]["storage_limit"] is (storage_problem is None)
    assert records["modest"]["outcome"] == "passed"
    effective = records["modest"]["effective"].get("storage_limit_bytes")
    fills = records["fills"]
    if storage_problem is None:
        assert effective == 64 * 1024**2
        assert (fills["outcome"], fills["cause"]) == ("failed", None)
        assert fills["detail"] == "the disk limit of 64 MiB was reached"
    else:
        assert effective is None
        # Without a limit, a missing reward is what it always is.
        assert (fills["outcome"], fills["cause"]) == ("infra_error", "reward_missing")
        words = "[[]environment] storage: disk space is not limited: *"
        result.stdout.fnmatch_lines([f"infranoise: *{words}"])
