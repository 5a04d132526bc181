"""Agents of users in whole runs: installed before any trial, or a function on the host."""

import json
import uuid
from typing import Any

import pytest
from bench import Bench, hog

AGENT = "--infra-agent=my-agent"


def ini(bench: Bench, **values: str) -> None:
    lines = [f"infra_{name} = {value}" for name, value in values.items()]
    bench.pytester.makeini("\n".join(["[pytest]", *lines]))


def install_line() -> str:
    """An install step of this test alone."""
    program = r"printf '#!/bin/sh\ntouch /app/done\n' >/bin/my-agent"
    return f"{program} && chmod +x /bin/my-agent && : {uuid.uuid4()}"


def manifest_of(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((bench.studies()[-1] / "manifest.json").read_text())
    return found


def test_an_agent_is_installed_once_and_never_in_a_trial(one_bench: Bench) -> None:
    one_bench.task("first")
    one_bench.task("second")  # the same image
    ini(one_bench, agent="my-agent", agent_install=install_line())
    result = one_bench.run("--infra-multipliers=1,2", "-n2")
    assert result.ret == 0, result.stdout.str()
    said = [line for line in result.outlines if "installing the agent into" in line]
    assert len(said) == 1
    manifest, records = manifest_of(one_bench), one_bench.records()
    assert {record["outcome"] for record in records} == {"passed"}
    (digest,) = {record["image_digest"] for record in records}
    for task in manifest["tasks"]:
        assert task["image"]["digest"] == digest
        assert task["image"]["base_digest"] not in (None, digest)
    assert manifest["agent"]["location"] == "sandbox"
    assert len(manifest["agent"]["install"]) == 64

    again = one_bench.run("--infra-multipliers=1", "-n0")
    assert again.ret == 0
    again.stdout.no_fnmatch_line("*installing the agent*")
    assert {record["image_digest"] for record in one_bench.records()} == {digest}

    # The oracle needs no agent: an ini file that describes one does not hinder its check.
    oracle = one_bench.run("--infra-multipliers=1", "-n0", "--infra-agent=oracle")
    assert oracle.ret == 0
    assert digest not in {record["image_digest"] for record in one_bench.records()}


def test_an_install_step_that_fails_is_a_usage_error_before_anything_runs(one_bench: Bench) -> None:
    one_bench.task("first")
    step = "--infra-agent-install=echo resolving; echo 'no such package'; exit 1"
    result = one_bench.run("--infra-multipliers=1", "-n2", AGENT, step)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: first: cannot install the agent into pytest-infranoise/first:*: resolving | "
            "no such package | the install step returned 1"
        ]
    )
    assert one_bench.studies() == []


def test_what_an_install_step_cannot_be_for(plain_bench: Bench) -> None:
    plain_bench.task("first")
    step = "--infra-agent-install=true"
    for agent in ("oracle", "nop"):
        result = plain_bench.run("--infra-multipliers=1", "-n0", f"--infra-agent={agent}", step)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"*-install: the {agent} agent needs no installation"])
    result = plain_bench.run(
        "--infra-multipliers=1", "-n0", AGENT, step, "--infra-backend=local", "--infra-clamp"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --infra-agent-install: the local backend has no images*"])


SOLVER = """
def solve(instruction, sandbox):
    assert instruction == "Make /app/done.\\n"
    kind = sandbox.task.name
    if kind == "hungry":
        assert sandbox.exec({hog!r}).exit_code == 137
    elif kind == "slow":
        sandbox.exec("sleep 60")
    elif kind == "broken":
        raise KeyError("no such tool")
    else:
        sandbox.exec("touch /app/done")
"""


def test_a_function_on_the_host_works_in_the_sandbox(one_bench: Bench) -> None:
    for name in ("calm", "hungry", "broken"):
        one_bench.task(name)
    one_bench.task("slow", agent_timeout=1)
    (one_bench.path / "solver.py").write_text(SOLVER.format(hog=hog(64)))
    result = one_bench.run("--infra-multipliers=1", "-n2", "--infra-agent=solver:solve")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    found = {item["task"]: (item["outcome"], item["cause"]) for item in one_bench.records()}
    assert found == {
        "calm": ("passed", None),
        "hungry": ("oom", "survived_then_failed"),
        "slow": ("timeout", None),
        "broken": ("failed", None),
    }
    broken = next(item for item in one_bench.records() if item["task"] == "broken")
    agent = next(phase for phase in broken["phases"] if phase["phase"] == "agent")
    assert agent["exit_code"] == 1
    assert agent["output"].endswith("KeyError: 'no such tool'\n")
    assert manifest_of(one_bench)["agent"]["location"] == "host"


def test_a_function_that_is_not_there_is_a_usage_error(plain_bench: Bench) -> None:
    plain_bench.task("calm")
    for extra in ((), ("-n2",)):
        result = plain_bench.run("--infra-multipliers=1", "--infra-agent=nowhere:solve", *extra)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["ERROR: --infra-agent=nowhere:solve: nowhere cannot be im*"])
    (plain_bench.path / "here.py").write_text("def solve(instruction, sandbox): pass\n")
    files = f"--infra-agent-files={plain_bench.path}:/x"
    result = plain_bench.run("--infra-multipliers=1", "--infra-agent=here:solve", files)
    result.stderr.fnmatch_lines(["ERROR: --infra-agent-files: the function here:solve runs on*"])
