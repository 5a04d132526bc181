"""No difference between two configurations goes unsaid."""

import copy
import json

import pytest

from pytest_infranoise.admission import Budget
from pytest_infranoise.backends.base import EngineInfo
from pytest_infranoise.design import effective_allocations
from pytest_infranoise.model.resources import (
    Capacity,
    ResourceSpec,
    joint_sets,
    parse_multipliers,
)
from pytest_infranoise.model.task import ImageSource, PreparedImage, Task
from pytest_infranoise.report.card import card_text
from pytest_infranoise.study.configuration import (
    UNKNOWN,
    Weight,
    configuration,
    differences,
    field_differences,
    unknown_fields,
)
from pytest_infranoise.study.manifest import StudyFacts, capture_manifest
from pytest_infranoise.study.sameness import changes
from pytest_infranoise.units import GIB, MIB

SETS = joint_sets(parse_multipliers("1,3,uncapped", where="test"))
PAIRS = [(item.id, item.id) for item in SETS]
CAPACITY = Capacity(64 * GIB, 8)
NOT_CONFIGURATION = {
    "schema_version", "study", "started_at", "ended_at", "command_line", "sessions",
    "load_at_start", "load_at_end", "decided_at_look", "extended_from", "options", "name",
}  # fmt: skip


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    tasks = [
        Task(
            name,
            f"digest-{name}",
            ResourceSpec.declared(96 * MIB, 0.25),
            ImageSource(docker_image="python:3.11"),
            directory=folder / name,
            instruction="do it",
            agent_timeout_seconds=60.0,
        )
        for name in ("calm", "spike")
    ]
    facts = StudyFacts(
        study="s",
        command_line=["pytest"],
        seed=7,
        order="interleaved",
        samples=5,
        parameter_sets=SETS,
        tasks=tasks,
        allocations=effective_allocations(tasks, SETS, CAPACITY, clamp=False),
        engine=EngineInfo("docker", "docker 20", "id", 2, "hard limit", CAPACITY,
                          details={"kernel_version": "6.1"}),
        agent={"name": "my agent", "command": "my agent"},
        budget=Budget(60 * GIB, 8),
        images={name: PreparedImage("python:3.11", f"sha256:{name}") for name in ("calm", "spike")},
        disclosed={"inference-endpoint": "https://api.example"},
        workers=4,
    )  # fmt: skip
    made = capture_manifest(facts)
    made["host"]["cpu_model"] = "a model"
    return json.loads(json.dumps(made))


def leaves(value, path=()):
    """Every place in a manifest where one value stands."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            if not (len(path) == 0 and key in NOT_CONFIGURATION):
                yield from leaves(item, (*path, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    elif path[-1] not in ("name", "id", "words") and path[-2:] != ("effective", "notes"):
        yield path


def changed(manifest, path):
    twin = copy.deepcopy(manifest)
    place = twin
    for key in path[:-1]:
        place = place[key]
    value = place[path[-1]]
    if isinstance(value, bool):
        place[path[-1]] = not value
    elif isinstance(value, int | float):
        place[path[-1]] = value + 1
    else:
        place[path[-1]] = "another"
    return twin


STRANGE = ("text", 3, [], [1], {}, {"a": [1]}, None, True)


def test_strange_values_are_differences_and_no_crash(manifest):
    places = [(name,) for name in manifest if name not in ("tasks", "parameter_sets")]
    places += [("tasks", 0, name) for name in manifest["tasks"][0] if name != "name"]
    places += [("tasks", 0, "limits", "1x"), ("tasks", 0, "limits", "1x", "effective")]
    for path in places:
        for value in STRANGE:
            twin = copy.deepcopy(manifest)
            holder = twin
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = value
            for first, second in ((manifest, twin), (twin, manifest), (twin, twin)):
                assert all(item.first or item.second for item in differences(first, second, PAIRS))
                changes(first, second)
            assert len(card_text(twin)) == 10


def test_a_study_differs_in_nothing_from_itself(manifest):
    assert differences(manifest, copy.deepcopy(manifest), PAIRS) == []


def test_no_planted_difference_goes_unsaid(manifest):
    planted = list(leaves(manifest))
    assert len(planted) > 100
    assert [
        path for path in planted if not differences(manifest, changed(manifest, path), PAIRS)
    ] == []


@pytest.mark.parametrize("field", ["memory_limit_bytes", "cpu_limit_cores", "cpu_guarantee_cores"])
@pytest.mark.parametrize("name", ["1x", "3x"])
def test_limits_under_one_name_must_be_the_same(manifest, field, name):
    path = ("tasks", 1, "limits", name, "effective", field)
    (found,) = differences(manifest, changed(manifest, path), PAIRS)
    assert found.weight is Weight.INCOMPARABLE
    assert "1 of 2 tasks, as spike" in found.field
    assert name in found.field


@pytest.mark.parametrize(
    ("path", "weight"),
    [
        (("tasks", 0, "digest"), Weight.INCOMPARABLE),
        (("tasks", 0, "network"), Weight.INCOMPARABLE),
        (("tasks", 0, "leftovers"), Weight.INCOMPARABLE),
        (("tasks", 0, "verifier_timeout_seconds"), Weight.INCOMPARABLE),
        (("tasks", 0, "limits", "1x", "agent_timeout_seconds"), Weight.INCOMPARABLE),
        (("tasks", 0, "image", "digest"), Weight.DISCLOSE),
        (("parameter_sets", 1, "memory_multiplier"), Weight.INCOMPARABLE),
        (("enforcement", "oom_policy"), Weight.INCOMPARABLE),
        (("enforcement", "swap"), Weight.INCOMPARABLE),
        (("enforcement", "lenient_seconds"), Weight.INCOMPARABLE),
        (("enforcement", "visible"), Weight.INCOMPARABLE),
        (("pass_threshold",), Weight.INCOMPARABLE),
        (("backend", "engine"), Weight.DISCLOSE),
        (("backend", "cgroup_version"), Weight.DISCLOSE),
        (("backend", "details", "kernel_version"), Weight.DISCLOSE),
        (("host", "kernel"), Weight.DISCLOSE),
        (("host", "cpu_model"), Weight.DISCLOSE),
        (("workers",), Weight.DISCLOSE),
        (("admission", "admit"), Weight.DISCLOSE),
        (("order",), Weight.DISCLOSE),
        (("disclosed", "inference-endpoint"), Weight.DISCLOSE),
        (("software", "pytest_infranoise"), Weight.DISCLOSE),
        (("seed",), Weight.HARMLESS),
        (("samples",), Weight.HARMLESS),
        (("software", "dependencies", "pluggy"), Weight.HARMLESS),
        (("tasks", 0, "directory"), Weight.HARMLESS),
    ],
)
def test_the_class_of_a_difference(manifest, path, weight):
    found = differences(manifest, changed(manifest, path), PAIRS)
    assert {item.weight for item in found} == {weight}


def test_a_field_that_nobody_knows_here_must_be_disclosed(manifest):
    twin = {**manifest, "quantum_backend": {"temperature": 4}}
    (found,) = differences(manifest, twin, PAIRS)
    assert (found.field, found.first, found.second, found.weight) == (
        "quantum backend temperature", UNKNOWN, "4", Weight.DISCLOSE,
    )  # fmt: skip


def test_the_gravest_come_first(manifest):
    twin = changed(changed(manifest, ("seed",)), ("host", "kernel"))
    twin = changed(twin, ("tasks", 0, "digest"))
    order = [item.weight for item in differences(manifest, twin, PAIRS)]
    assert order == [Weight.INCOMPARABLE, Weight.DISCLOSE, Weight.HARMLESS]


def test_a_reference_solution_and_an_agent_are_incomparable(manifest):
    twin = {**manifest, "agent": {"name": "oracle"}}
    found = differences(manifest, twin, PAIRS)
    assert found[0].field == "reference solution or agent"
    assert found[0].weight is Weight.INCOMPARABLE


def test_what_is_essential_is_named_where_neither_side_knows_it(manifest):
    bare = {**manifest, "backend": None, "disclosed": {}, "workers": None, "host": {}}
    found = {item.field: item for item in differences(bare, copy.deepcopy(bare), PAIRS)}
    for field in (
        "backend engine", "backend cgroup version", "workers", "host cpu model", "enforcement",
        "disclosed inference-endpoint",
    ):  # fmt: skip
        assert (found[field].first, found[field].second) == (UNKNOWN, UNKNOWN)
        assert found[field].weight is Weight.DISCLOSE


def test_tasks_of_one_side_alone(manifest):
    twin = copy.deepcopy(manifest)
    twin["tasks"][0]["name"] = "new"
    (found,) = differences(manifest, twin, PAIRS)
    assert (found.first, found.second, found.weight) == (
        "1 (calm)", "1 (new)", Weight.DISCLOSE,
    )  # fmt: skip
    twin["tasks"][1]["name"] = "newer"
    assert differences(manifest, twin, PAIRS)[0].weight is Weight.INCOMPARABLE


def test_sets_of_other_names_are_disclosed(manifest):
    found = differences(manifest, manifest, [("1x", "3x")])
    assert Weight.INCOMPARABLE not in {item.weight for item in found}
    assert found[0].first == "memory 1x, cpu 1x, timeout 1x"


def test_a_busy_host_is_told_from_an_idle_one(manifest):
    def loaded(average):
        return {**manifest, "load_at_start": {"load_average": [average, 1, 1]},
                "host": {**manifest["host"], "cpu_count": 2}}  # fmt: skip

    assert differences(loaded(0.2), loaded(0.6), PAIRS) == []
    (found,) = differences(loaded(0.2), loaded(13.0), PAIRS)
    assert (found.field, found.first, found.second) == ("load at start per cpu", "0.1", "6.5")


def test_two_published_scores_know_nothing():
    found = unknown_fields()
    assert {(item.first, item.second, item.weight) for item in found} == {
        (UNKNOWN, UNKNOWN, Weight.DISCLOSE)
    }
    assert len(found) == 10


def test_configurations_survive_json(manifest):
    fields = configuration(manifest)
    again = json.loads(json.dumps(fields))
    assert field_differences(fields, again) == []


@pytest.mark.parametrize(
    "path",
    [
        ("tasks", 0, "digest"),
        ("tasks", 0, "limits", "3x", "effective", "memory_limit_bytes"),
        ("tasks", 0, "image", "digest"),
        ("agent", "command"),
        ("enforcement", "oom_policy"),
        ("seed",),
        ("backend", "cgroup_version"),
        ("parameter_sets", 2, "memory_multiplier"),
    ],
)
def test_one_study_has_one_configuration(manifest, path):
    assert changes(manifest, changed(manifest, path)) != []


@pytest.mark.parametrize(
    "path", [("host", "kernel"), ("workers",), ("backend", "engine"), ("software", "python")]
)
def test_where_a_study_ran_may_change(manifest, path):
    assert changes(manifest, changed(manifest, path)) == []
