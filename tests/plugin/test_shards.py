"""Parts of a study that run apart, and what they come to together."""

import json
from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest
from bench import Bench
from test_resume import places, refused

from pytest_infranoise.errors import UsageError
from pytest_infranoise.plugin.notes import parse_notes
from pytest_infranoise.plugin.shards import Shard, parse_shard
from pytest_infranoise.study.merging import merge
from pytest_infranoise.study.store import load_study

SWEEP = ("--infra-multipliers=1,4", "--infra-samples=2", "--infra-seed=11", "--infra-exit=study")


@pytest.mark.parametrize("of", [1, 2, 5, 7])
@pytest.mark.parametrize("blocks", [0, 1, 5, 6, 23])
def test_shards_share_the_blocks_evenly(of: int, blocks: int) -> None:
    shards = [Shard(number, of) for number in range(1, of + 1)]
    owners = Counter(
        shard.number for block in range(blocks) for shard in shards if shard.holds(block)
    )
    assert sum(owners.values()) == blocks
    sizes = [owners[shard.number] for shard in shards]
    assert max(sizes) - min(sizes) <= 1


def test_a_shard_is_read() -> None:
    assert parse_shard(" 2 / 5 ", where="x") == Shard(2, 5)


@pytest.mark.parametrize("text", ["0/5", "6/5", "2", "2/", "/5", "-1/5", "2/5/6", "a/b", "1/10001"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--x: .* is not a valid shard; write NUMBER/OF"):
        parse_shard(text, where="--x")


def test_notes_are_read_and_secrets_hidden() -> None:
    given = ["Inference_Endpoint=https://u:p@api.example/v1?a=b", "quantisation = none"]
    assert parse_notes([*given, "api_key=abc"], where="x") == {
        "inference-endpoint": "https://<redacted>@api.example/v1?a=b",
        "quantisation": "none",
        "api-key": "<redacted>",
    }


@pytest.mark.parametrize("values", [["x"], ["=y"], ["x="], ["a\x1b=b"], ["a b=1", "a_b=2"]])
def test_what_is_no_note_is_refused(values: list[str]) -> None:
    with pytest.raises(UsageError, match=r"^--infra-note: "):
        parse_notes(values, where="--infra-note")


def test_five_shards_in_any_order_equal_the_whole(local_bench: Bench, tmp_path: Path) -> None:
    local_bench.standard()
    local_bench.run(*SWEEP, "--infra-study=whole", "-n2")
    whole = local_bench.records(local_bench.path / "whole")
    shards = []
    for number in range(1, 6):
        name = f"shard-{number}"
        workers = "-n2" if number % 2 else "-n0"
        result = local_bench.run(
            *SWEEP, f"--infra-study={name}", f"--infra-shard={number}/5", workers
        )
        assert result.ret == 0, result.stdout.str()
        result.stdout.fnmatch_lines(
            [f"infranoise: study *, shard {number}/5, agent *", f"shard {number} of 5 alone; *"]
        )
        shards.append(local_bench.path / name)
    blocks = [{record["block"] for record in local_bench.records(folder)} for folder in shards]
    assert [len(own) for own in blocks] == [2, 1, 1, 1, 1]
    assert [len(local_bench.records(folder)) for folder in shards] == [4, 2, 2, 2, 2]
    merged = [
        load_study(merge(order, tmp_path / str(number)).directory)
        for number, order in enumerate(list(permutations(shards))[::40])
    ]
    first = list(merged[0].records())
    assert places(first) == places(whole)
    assert all(list(study.records()) == first for study in merged)
    assert merged[0].manifest.data["planned_trials"] == 12
    assert merged[0].table().tasks == load_study(local_bench.path / "whole").table().tasks


def test_a_shard_without_a_block_is_an_empty_study(local_bench: Bench, tmp_path: Path) -> None:
    local_bench.task("calm")
    run = ("--infra-multipliers=1,2", "--infra-seed=1")
    for number, trials in ((1, 2), (2, 0)):
        for workers in ("-n0", "-n2"):
            name = f"shard-{number}{workers}"
            result = local_bench.run(
                *run, f"--infra-study={name}", f"--infra-shard={number}/2", workers
            )
            assert result.ret == 0, result.stdout.str()
            study = load_study(local_bench.path / name)
            assert len(list(study.records())) == trials
            assert study.manifest.is_finished
    folders = [local_bench.path / name for name in ("shard-1-n0", "shard-2-n2")]
    done = merge(folders, tmp_path / "all")
    assert (done.records, done.missing) == (2, ())


def test_a_shard_goes_on_as_the_shard_it_was(local_bench: Bench) -> None:
    local_bench.standard()
    local_bench.run(*SWEEP, "--infra-study=part", "--infra-shard=2/3", "-n0")
    folder = local_bench.path / "part"
    before = local_bench.records(folder)
    journal = folder / "trials.jsonl"
    journal.write_text("".join(json.dumps(record) + "\n" for record in before[:1]))
    result = local_bench.run("--infra-study=part", "--infra-resume", "-n2")
    assert result.ret == 0, result.stdout.str()
    assert places(local_bench.records(folder)) == places(before)
    assert load_study(folder).manifest.data["shard"] == {"number": 2, "of": 3}


def test_a_dry_run_lists_the_shard(plain_bench: Bench, local_backend: object) -> None:
    plain_bench.engine = "local"
    plain_bench.standard()
    listed = []
    for number in (1, 2):
        result = plain_bench.run(*SWEEP, f"--infra-shard={number}/2", "--infra-dry-run")
        result.stdout.fnmatch_lines(["6 trials in this order (seed 11):"])
        listed += [line for line in result.outlines if line.endswith((" s1", " s2"))]
    assert len(listed) == len(set(listed)) == 12


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--infra-multipliers=1", "--infra-shard=1/2"), "need one seed"),
        (("--infra-multipliers=1", "--infra-seed=1", "--infra-shard=3/2"), "is not a valid shard"),
        (
            (
                "--infra-multipliers=1,2",
                "--infra-seed=1",
                "--infra-shard=1/2",
                "--infra-until-decided",
                "--infra-max-samples=4",
            ),
            "cannot be combined with --infra-until-decided",
        ),
    ],
)
def test_mistakes(plain_bench: Bench, options: tuple[str, ...], words: str) -> None:
    plain_bench.task("calm")
    assert words in refused(plain_bench.run(*options))
