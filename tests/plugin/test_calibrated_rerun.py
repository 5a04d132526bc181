"""What `infranoise calibrate` proposes, tried: a rerun at 1x kills nothing that can pass."""

from bench import Bench, hog

from pytest_infranoise.cli.main import main

# An agent that is no reference solution; how much it needs depends on what it is asked.
AGENT = f"""--infra-agent=sh -c '
case "$(cat "$INFRA_INSTRUCTION")" in
  *large*) {hog(64)} >/dev/null || exit 1;;
  *transient*) {hog(100)} >/dev/null || {hog(100)} >/dev/null || exit 1;;
esac
touch /app/done'"""
OPTIONS = (AGENT, "-n0", "--infra-exit=study")


def kills(bench: Bench, parameter_set: str) -> dict[str, int]:
    """Kills per task in one set of the last study."""
    found: dict[str, int] = {}
    for record in bench.records():
        if record["parameter_set"] == parameter_set:
            found[record["task"]] = found.get(record["task"], 0) + record["oom_kills"]
    return found


def test_a_rerun_at_the_proposed_values_has_no_kill(local_bench: Bench) -> None:
    for name, word in (("calm", ""), ("hungry", "large"), ("spiky", "transient")):
        task = local_bench.task(name)
        (task / "instruction.md").write_text(f"Do a {word} thing and make /app/done.\n")
    local_bench.task("wrong", test="#!/bin/sh\necho 0 >/logs/verifier/reward.txt\n")
    local_bench.run(*OPTIONS, "--infra-multipliers=1,4,uncapped", "--infra-samples=6")
    assert kills(local_bench, "1x") == {"calm": 0, "hungry": 6, "spiky": 12, "wrong": 0}
    (study,) = local_bench.studies()

    # Twelve trials had room; with few of them only a large rate of kills can be excluded.
    options = ["--kill-rate", "30%", "--write"]
    assert main(["calibrate", str(study), *options]) == 0
    limits = {
        name: (local_bench.path / "bench" / name / "task.toml").read_text().splitlines()[-1]
        for name in ("calm", "hungry", "spiky")
    }
    assert limits == {
        "calm": 'memory_limit = "32M"',
        "hungry": 'memory_limit = "96M"',
        "spiky": 'memory_limit = "128M"',
    }

    again = local_bench.run(*OPTIONS, "--infra-samples=3", "--infra-gate=no-kill@1x")
    assert again.ret == 0
    assert kills(local_bench, "1x") == {"calm": 0, "hungry": 0, "spiky": 0, "wrong": 0}
    outcomes = {(record["task"], record["outcome"]) for record in local_bench.records()}
    assert outcomes == {
        ("calm", "passed"), ("hungry", "passed"), ("spiky", "passed"), ("wrong", "failed"),
    }  # fmt: skip
