"""Item ids, parameter sets and order, as far as collection alone shows them."""

import json
import os
from typing import Any

import pytest
from bench import Bench


def collected(bench: Bench, *args: str) -> list[str]:
    result = bench.pytester.runpytest_subprocess(*args, "--collect-only", "-q")
    return [line for line in result.stdout.lines if "::" in line]


def ids(lines: list[str]) -> set[str]:
    return {line.rpartition("::")[2] for line in lines}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--infra-multipliers=1,1.5,uncapped"], {"1x-s1", "1.5x-s1", "uncapped-s1"}),
        (["--infra-multipliers=0.25,3"], {"0.25x-s1", "3x-s1"}),
        (["--infra-samples=2"], {"1x-s1", "1x-s2"}),
        (["--infra-memory-multipliers=1,5"], {"mem1x-cpu1x-s1", "mem5x-cpu1x-s1"}),
        (["--infra-cpu-multipliers=uncapped"], {"mem1x-cpuuncapped-s1"}),
        (
            ["--infra-memory-multipliers=1,5", "--infra-cpu-multipliers=2"],
            {"mem1x-cpu2x-s1", "mem5x-cpu2x-s1"},
        ),
        (["--infra-timeout-multipliers=1,4"], {"mem1x-cpu1x-time1x-s1", "mem1x-cpu1x-time4x-s1"}),
    ],
)
def test_parameter_sets(plain_bench: Bench, options: list[str], expected: set[str]) -> None:
    plain_bench.task("calm")
    assert ids(collected(plain_bench, *options)) == expected


def test_ini_twins(plain_bench: Bench) -> None:
    plain_bench.task("calm")
    plain_bench.pytester.makeini("[pytest]\ninfra_multipliers = 1,2\ninfra_samples = 2\n")
    assert ids(collected(plain_bench)) == {"1x-s1", "2x-s1", "1x-s2", "2x-s2"}
    assert ids(collected(plain_bench, "--infra-samples=1")) == {"1x-s1", "2x-s1"}


def test_selection_by_keyword_and_node_id(plain_bench: Bench) -> None:
    plain_bench.task("calm")
    plain_bench.task("hungry")
    sweep = "--infra-multipliers=1,3,uncapped"
    assert len(collected(plain_bench, sweep)) == 6
    assert len(collected(plain_bench, sweep, "-k", "hungry")) == 3
    assert collected(plain_bench, sweep, "-k", "hungry and uncapped") == [
        "bench/hungry/task.toml::uncapped-s1"
    ]
    node = "bench/calm/task.toml::3x-s1"
    assert collected(plain_bench, sweep, node) == [node]


def test_blocks_hold_every_set_of_a_task_once(plain_bench: Bench) -> None:
    for name in ("a", "b", "c", "d"):
        plain_bench.task(name)
    lines = collected(
        plain_bench, "--infra-multipliers=1,2,3", "--infra-samples=2", "--infra-seed=7"
    )
    blocks = [lines[start : start + 3] for start in range(0, 24, 3)]
    for position, block in enumerate(blocks):
        assert len({line.split("/")[1] for line in block}) == 1
        sample = "s1" if position < 4 else "s2"
        assert {line.rpartition("::")[2] for line in block} == {
            f"{multiplier}x-{sample}" for multiplier in (1, 2, 3)
        }
    again = collected(
        plain_bench, "--infra-multipliers=1,2,3", "--infra-samples=2", "--infra-seed=7"
    )
    assert again == lines


def test_sequential_order(plain_bench: Bench) -> None:
    plain_bench.task("a")
    plain_bench.task("b")
    lines = collected(plain_bench, "--infra-multipliers=1,3", "--infra-order=sequential")
    assert [line.rpartition("::")[2] for line in lines] == ["1x-s1", "1x-s1", "3x-s1", "3x-s1"]


def test_a_dry_run_shows_limits_and_runs_nothing(one_bench: Bench) -> None:
    one_bench.task("calm", environment="cpus = 0.5")
    result = one_bench.run("--infra-multipliers=1,1.5,uncapped", "--infra-dry-run", "-n2")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "task  set       guarantee        kill threshold  cpu limit  agent deadline  notes",
            "calm  1x        32 MiB, 0.5 cpu  32 MiB          0.5 cpu    30 s",
            "calm  1.5x      32 MiB, 0.5 cpu  48 MiB          0.75 cpu   30 s",
            "calm  uncapped  32 MiB, 0.5 cpu  uncapped        uncapped   30 s",
            "3 trials in this order (seed *):",
            "nothing was run",
        ]
    )
    assert not one_bench.studies()


def test_two_tasks_of_one_name(plain_bench: Bench) -> None:
    plain_bench.task("calm", folder="bench/a")
    plain_bench.task("calm", folder="bench/b")
    lines = collected(plain_bench, "--infra-multipliers=1")
    assert sorted(lines) == ["bench/a/calm/task.toml::1x-s1", "bench/b/calm/task.toml::1x-s1"]


TOO_BIG = "*task huge, parameter set 1x: kill threshold *"
CALM = "bench/calm/task.toml::1x-s1"


def sweep(bench: Bench, *args: str) -> pytest.RunResult:
    options = ("--infra-multipliers=1", f"--infra-backend={bench.engine}", "-p", "no:cacheprovider")
    return bench.pytester.runpytest_subprocess(*args, *options, timeout=240)


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
@pytest.mark.parametrize(
    "selected",
    [
        ("-k", "calm"),
        ("--ignore=bench/huge",),
        ("--ignore-glob=*/hu*",),
        ("--deselect=bench/huge",),
        (CALM,),
        ("bench/calm",),
        ("--infra-exclude=hu*",),
    ],
    ids=lambda args: args[0],
)
def test_a_task_that_is_not_selected_is_neither_refused_nor_prepared(
    local_bench: Bench, selected: tuple[str, ...], workers: tuple[str, ...]
) -> None:
    local_bench.task("calm")
    local_bench.task("huge", memory="900000G")
    folder = () if selected[0].startswith("bench") else ("bench",)
    result = sweep(local_bench, *folder, *selected, *workers)
    result.stdout.fnmatch_lines(["*1 passed*"])
    assert [record["task"] for record in local_bench.records()] == ["calm"]


def test_what_is_selected_is_refused(local_bench: Bench) -> None:
    local_bench.task("calm")
    local_bench.task("huge", memory="900000G")
    result = local_bench.run("--infra-multipliers=1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([TOO_BIG])


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_one_selected_task_prepares_one_image(
    one_bench: Bench, docker_backend: Any, workers: str
) -> None:
    mark = f"selection-{os.getpid()}-{workers.strip('-')}"
    for name in ("one", "two", "three"):
        folder = one_bench.task(f"{mark}-{name}")
        with (folder / "environment" / "Dockerfile").open("a") as file:
            file.write(f"LABEL made-for={mark}-{name}\n")

    def made() -> set[str]:
        images = docker_backend.client.images.list(filters={"label": "made-for"})
        values = {image.labels["made-for"] for image in images}
        return {value for value in values if value.startswith(mark)}

    study = ("--infra-multipliers=1", "--infra-study=study", workers)
    result = one_bench.run(*study, "-k", "one")
    result.stdout.fnmatch_lines(["*1 passed*"])
    assert made() == {f"{mark}-one"}
    manifest = json.loads((one_bench.path / "study" / "manifest.json").read_text())
    assert [item["name"] for item in manifest["tasks"] if item["image"]] == [f"{mark}-one"]
    again = one_bench.run("--infra-study=study", "--infra-resume", "-k", "one or two", workers)
    assert again.ret == 0, again.stdout.str()  # the others are neither missing nor changed
    assert made() == {f"{mark}-one", f"{mark}-two"}
    manifest = json.loads((one_bench.path / "study" / "manifest.json").read_text())
    named = [item["name"] for item in manifest["tasks"] if item["image"]]
    assert sorted(named) == [f"{mark}-one", f"{mark}-two"]


def test_a_study_goes_on_with_a_part_of_its_tasks(local_bench: Bench) -> None:
    for name in ("one", "two", "three"):
        local_bench.task(name)
    sweep(local_bench, "bench", "--infra-study=whole", "-n0", "-k", "one")
    for selected in (("bench/two",), ("bench", "--infra-exclude=two"), ("bench",)):
        own = ("--infra-study=whole", "--infra-resume=check", "-n0", "-p", "no:cacheprovider")
        result = local_bench.pytester.runpytest_subprocess(*selected, *own, timeout=240)
        assert result.ret == 0, result.stdout.str() + result.stderr.str()
    assert sorted(item["task"] for item in local_bench.records(local_bench.path / "whole")) == [
        "one", "three", "two",
    ]  # fmt: skip


def test_a_run_of_marked_tests_alone_prepares_no_task(local_bench: Bench) -> None:
    local_bench.task("huge", memory="900000G")
    local_bench.pytester.makepyfile("def test_mine(): pass")
    result = sweep(local_bench, ".", "-k", "test_mine")
    result.stdout.fnmatch_lines(["*1 passed*"])


def test_a_dry_run_plans_what_is_selected(local_bench: Bench) -> None:
    local_bench.task("calm")
    local_bench.task("other")
    lines = sweep(local_bench, "bench", "-k", "calm", "--infra-dry-run").stdout
    lines.fnmatch_lines(["calm  1x *", "1 trials in this order*"])
    lines.no_fnmatch_line("other *")
