"""Shards put together, in any order and as often as one likes."""

import json
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_infranoise.analysis.gate_grammar import parse_gate
from pytest_infranoise.analysis.gates import GateVerdict
from pytest_infranoise.errors import UsageError
from pytest_infranoise.report.gates import judge_view
from pytest_infranoise.report.view import view_study
from pytest_infranoise.study.looks import LOOKS_NAME, count_looks
from pytest_infranoise.study.merging import merge
from pytest_infranoise.study.store import load_study

TASKS = ("spike", "calm", "wrong")
SETS = ("1x", "3x")


def a_manifest(number, of=5, **values):
    task = {"digest": "d", "directory": "x", "spec": {"memory": 1}, "image": None, "limits": {}}
    return {
        "schema_version": 1,
        "study": f"part-{number}",
        "started_at": f"2026-12-01T10:0{number}:00+00:00",
        "ended_at": f"2026-12-01T11:0{number}:00+00:00",
        "command_line": ["pytest", f"--infra-shard={number}/{of}"],
        "sessions": [
            {
                "started_at": f"2026-12-01T10:0{number}:00+00:00",
                "ended_at": f"2026-12-01T11:0{number}:00+00:00",
                "command_line": ["pytest", str(number)],
            }
        ],
        "seed": 7,
        "order": "interleaved",
        "samples": 2,
        "extended_from": [],
        "shard": None if of is None else {"number": number, "of": of},
        "parameter_sets": [
            {"id": name, "memory_multiplier": factor, "cpu_multiplier": factor}
            for name, factor in zip(SETS, (1.0, 3.0), strict=True)
        ],
        "baseline": "1x",
        "equal_sets": [],
        "agent": {"name": "agent"},
        "backend": {"backend": "docker", "engine": f"docker {20 + number % 2}", "cgroup_version": 2,
                    "enforcement": "hard limit"},
        "tasks": [{"name": name, **task} for name in TASKS],
        "host": {"kernel": "6.1", "cpu_count": number},
        "ini": {"file": "tox.ini", "environment_addopts": [f"-n{number}"]},
        "planned_trials": 2,
        **values,
    }  # fmt: skip


def keys():
    """Every trial of the study with block and position."""
    blocks = [(task, sample) for sample in (1, 2) for task in TASKS]
    return [
        (task, name, sample, block, 2 * block + place)
        for block, (task, sample) in enumerate(blocks)
        for place, name in enumerate(SETS)
    ]


@pytest.fixture
def write(tmp_path, make_record):
    def write(number, of=5, records=None, **values):
        folder = tmp_path / f"part-{number}"
        folder.mkdir()
        (folder / "manifest.json").write_text(json.dumps(a_manifest(number, of, **values)))
        own = [key for key in keys() if of is None or key[3] % of == number - 1]
        lines = [
            make_record(task, name, sample, study=f"part-{number}", block=block, position=position)
            for task, name, sample, block, position in (own if records is None else records)
        ]
        text = "".join(json.dumps(line) + "\n" for line in reversed(lines))
        (folder / "trials.jsonl").write_text(text)
        return folder

    return write


@pytest.fixture
def shards(write):
    return [write(number) for number in range(1, 6)]


def whole(folder: Path):
    study = load_study(folder)
    return study.manifest.data, list(study.records())


def test_any_order_gives_the_same_study(shards, tmp_path):
    first = whole(merge(shards, tmp_path / "first").directory)
    for number, order in enumerate(list(permutations(shards))[::17]):
        assert whole(merge(order, tmp_path / f"other-{number}").directory) == first
    manifest, records = first
    assert [
        (item["task"], item["parameter_set"], item["sample"], item["block"], item["position"])
        for item in records
    ] == keys()
    assert manifest["shards"] == {"of": 5, "numbers": [1, 2, 3, 4, 5]}
    assert manifest["planned_trials"] == 10
    assert (manifest["started_at"], manifest["ended_at"]) == (
        "2026-12-01T10:01:00+00:00",
        "2026-12-01T11:05:00+00:00",
    )
    assert [session["study"] for session in manifest["sessions"]] == [
        f"part-{number}" for number in range(1, 6)
    ]


def test_parts_that_differ_in_where_they_ran_say_so(shards, tmp_path):
    manifest, _ = whole(merge(shards, tmp_path / "all").directory)
    assert manifest["backend"]["engine"] is None
    assert manifest["backend"]["enforcement"] == "hard limit"
    assert manifest["host"] == {"kernel": "6.1", "cpu_count": None}
    assert manifest["ini"] == {"file": "tox.ini", "environment_addopts": None}
    assert [part["host"]["cpu_count"] for part in manifest["parts"]] == [1, 2, 3, 4, 5]
    assert [task["name"] for task in manifest["tasks"]] == list(TASKS)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(groups=st.lists(st.sets(st.integers(0, 4), min_size=1), min_size=1, max_size=4))
def test_merging_step_by_step_is_merging_at_once(groups, shards, tmp_path_factory):
    place = tmp_path_factory.mktemp("merged")
    step = None
    for number, group in enumerate(groups):
        inputs = [shards[index] for index in sorted(group, reverse=bool(number % 2))]
        inputs += [] if step is None else [step]
        step = merge(inputs, place / f"step-{number}").directory
    at_once = merge([shards[index] for index in set().union(*groups)], place / "at-once")
    assert whole(step) == whole(at_once.directory)


def test_twice_changes_nothing(shards, tmp_path):
    done = merge(shards, tmp_path / "all")
    before = {file.name: file.read_bytes() for file in done.directory.iterdir()}
    again = merge([*shards, shards[2], done.directory], tmp_path / "all")
    assert (done.is_new, again.is_new) == (True, False)
    assert {file.name: file.read_bytes() for file in done.directory.iterdir()} == before


def test_one_part_stays_what_it_is(shards, tmp_path):
    done = merge(shards[:1], tmp_path / "one")
    assert whole(done.directory)[0] == load_study(shards[0]).manifest.data
    assert done.missing == (2, 3, 4, 5)


def test_missing_shards_are_named(shards, tmp_path):
    assert merge([shards[0], shards[3]], tmp_path / "some").missing == (2, 3, 5)


def test_no_gate_passes_while_shards_are_missing(shards, tmp_path):
    gates = [parse_gate(text, where="x") for text in ("success_rate>=0%", "success_rate<0%")]
    found = []
    for parts in (shards, shards[:4]):
        folder = merge(parts, tmp_path / str(len(parts))).directory
        manifest = json.loads((folder / "manifest.json").read_text())
        planned = len(whole(folder)[1])
        (folder / "manifest.json").write_text(json.dumps(manifest | {"planned_trials": planned}))
        found.append(judge_view(view_study(load_study(folder)), gates))
    assert [item.verdict for item in found[0]] == [GateVerdict.PASSED, GateVerdict.FAILED]
    assert [item.verdict for item in found[1]] == [GateVerdict.UNDECIDED, GateVerdict.FAILED]
    assert found[1][0].reason.startswith("of the shards 5 are missing; so far ")


def test_a_part_that_went_on_replaces_its_earlier_self(shards, write, tmp_path, make_record):
    early = merge(shards, tmp_path / "early").directory
    manifest = json.loads((shards[0] / "manifest.json").read_text())
    manifest["sessions"] += [{"started_at": "2026-12-02", "ended_at": None, "command_line": []}]
    (shards[0] / "manifest.json").write_text(json.dumps(manifest))
    extra = make_record("spike", "1x", 1, study="part-1", attempt=2, block=0, position=0)
    with (shards[0] / "trials.jsonl").open("a") as journal:
        journal.write(json.dumps(extra) + "\n")
    late = whole(merge([early, shards[0]], tmp_path / "late").directory)
    assert late == whole(merge(shards, tmp_path / "direct").directory)
    assert len(late[1]) == 13
    assert len(late[0]["sessions"]) == 6


def test_looks_at_parts_are_looks_at_the_whole(shards, tmp_path):
    for folder in shards[:2]:
        (folder / LOOKS_NAME).write_text(f'{{"at": "a"}}\n{{"at": "{folder.name}"}}\n')
    assert count_looks(merge(shards, tmp_path / "all").directory) == 3


OTHERS = {
    "seed": ({"seed": 8}, "seed: 7 there, 8 here"),
    "order": ({"order": "sequential"}, "order: interleaved there, sequential here"),
    "samples": ({"samples": 3}, "samples: 2 there, 3 here"),
    "agent": ({"agent": {"name": "other"}}, "agent: 'agent' there, 'other' here"),
    "sets": (
        {"parameter_sets": [{"id": "1x"}, {"id": "2x"}]},
        "parameter sets: 1x 3x there, 1x 2x here",
    ),
    "cgroup": (
        {"backend": {"backend": "docker", "cgroup_version": 1, "enforcement": "hard limit"}},
        "cgroup version: 2 there, 1 here",
    ),
    "backend": (
        {"backend": {"backend": "local", "cgroup_version": 2, "enforcement": "watchdog"}},
        "backend: docker there, local here",
    ),
    "enforcement": (
        {"backend": {"backend": "docker", "cgroup_version": 2, "enforcement": "watchdog"}},
        "enforcement: hard limit and watchdog",
    ),
    "reward": ({"pass_threshold": 0.5}, "reward that passes: 1.0 there, 0.5 here"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_another_study_is_refused_by_name(shards, write, tmp_path, kind):
    values, words = OTHERS[kind]
    stranger = write(9, **values)
    with pytest.raises(UsageError, match="part-9 is not part of") as caught:
        merge([*shards, stranger], tmp_path / "all")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "all").exists()


def test_other_tasks_are_refused_by_name(write, tmp_path):
    own = a_manifest(1)["tasks"]
    own[1]["limits"] = {"1x": {"requested": {}}}
    tasks = a_manifest(1)["tasks"]
    tasks[0]["digest"] = "e"
    tasks[1]["limits"] = {"1x": {}}
    tasks[2]["name"] = "new"
    with pytest.raises(UsageError) as caught:
        merge([write(8, tasks=own), write(9, tasks=tasks)], tmp_path / "all")
    for words in ("missing: wrong", "new: new", "content of spike", "limits of calm"):
        assert words in str(caught.value)


@pytest.mark.parametrize("order", [1, -1])
def test_what_one_part_alone_learnt_of_a_task_is_kept(write, tmp_path, order):
    learnt = {"image": {"reference": "a:1", "digest": "sha256:1"}, "limits": {"1x": {"a": 1}}}
    first, second = a_manifest(1)["tasks"], a_manifest(1)["tasks"]
    first[0] |= learnt
    second[0] |= {"image": None, "limits": {}}
    parts = [write(8, tasks=first), write(9, tasks=second)]
    merge(parts[::order], tmp_path / "all")
    task = load_study(tmp_path / "all").manifest.data["tasks"][0]
    assert {key: task[key] for key in learnt} == learnt
    second[0] |= {"image": {"reference": "a:1", "digest": "sha256:2"}}
    with pytest.raises(UsageError, match="image of"):
        merge([parts[0], write(7, tasks=second)], tmp_path / "other")


def test_the_same_trial_run_twice_is_refused(shards, write, tmp_path):
    twin = write(6, shard={"number": 1, "of": 5}, records=keys()[:2])
    with pytest.raises(UsageError, match=r"both ran spike at [13]x, sample 1"):
        merge([shards[0], twin], tmp_path / "all")


def test_shards_of_another_cut_are_refused(shards, write, tmp_path):
    with pytest.raises(UsageError, match="shards: 5 and 4"):
        merge([shards[0], write(7, shard={"number": 2, "of": 4}, records=[])], tmp_path / "all")


@pytest.mark.parametrize(
    ("values", "words"),
    [({"seed": None}, "imported"), ({"planned_looks": [{"number": 1}]}, "until-decided")],
)
def test_what_cannot_be_merged(write, tmp_path, values, words):
    with pytest.raises(UsageError, match=words):
        merge([write(1, **values)], tmp_path / "all")


def test_a_folder_in_use_is_left_alone(shards, tmp_path):
    merge(shards[:2], tmp_path / "some")
    before = whole(tmp_path / "some")
    with pytest.raises(UsageError, match="holds something else"):
        merge(shards, tmp_path / "some")
    assert whole(tmp_path / "some") == before
