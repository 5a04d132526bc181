"""The card that a leaderboard entry can publish."""

import json

import pytest
from test_compare import a_manifest, a_view

from pytest_infranoise.errors import UsageError
from pytest_infranoise.report.card import card_lines, card_text, make_card, read_card

GIB = 1024**3


def limits(memory, cores, timeout=60.0):
    return {
        "effective": {
            "memory_guarantee_bytes": GIB, "memory_limit_bytes": memory,
            "cpu_guarantee_cores": 1.0, "cpu_limit_cores": cores, "notes": [],
        },
        "agent_timeout_seconds": timeout,
    }  # fmt: skip


def a_full_manifest(**values):
    tasks = [
        {"name": name, "digest": name, "network": network, "verifier_timeout_seconds": 30.0,
         "limits": {"1x": limits(factor * GIB, 1.0), "uncapped": limits(None, None, None)}}
        for name, factor, network in (("a", 1, True), ("b", 4, False))
    ]  # fmt: skip
    return a_manifest(
        **{
            "tasks": tasks,
            "parameter_sets": [{"id": "1x"}, {"id": "uncapped"}],
            "admission": {
                "admit": "guarantee",
                "budget": {"memory_bytes": 8 * GIB, "cpu_cores": 2.0},
            },
            "backend": {"enforcement": "hard limit", "engine": "docker 20", "cgroup_version": 2,
                        "capacity": {"cpu_cores": 16.0}},
            "agent": {"name": "a", "command": "a"},
            **values,
        }
    )  # fmt: skip


def test_ten_lines_say_everything():
    assert card_text(a_full_manifest()) == {
        "guarantee": "1 GiB, 1 cpu per trial",
        "kill threshold": "1x: 1 GiB to 4 GiB, 1 cpu; uncapped: memory uncapped, cpu uncapped",
        "swap, oom policy": "memory plus swap equals the threshold; a kill takes one process",
        "enforcement": "hard limit, oom policy process; docker 20, cgroup v2",
        "visible cpus": "all 16 of the host, whatever the CPU limit",
        "timeouts": "agent 1x: 60 s; uncapped: no deadline; verifier 30 s",
        "agent location": "in the sandbox, within the trial's limits",
        "concurrency": "at most 4 trial(s) at once; each reserves its guarantee from a budget of "
        "8 GiB and 2 cpu for all",
        "network": "open in 1 of 2 tasks",
        "inference endpoint": "x",
    }


def test_what_is_unknown_is_called_so():
    bare = {"parameter_sets": [{"id": "1x"}], "tasks": [{"name": "a"}], "backend": None}
    lines = card_text(bare)
    assert lines.pop("inference endpoint").startswith("not given")
    assert lines.pop("timeouts") == "agent unknown; verifier unknown"
    assert set(lines.values()) == {"unknown"}


def test_other_methods():
    method = {"words": "lenient 5 s", "oom_policy": "container", "reserves": False,
              "swap": "twice", "visible": "limit"}  # fmt: skip
    lines = card_text(a_full_manifest(enforcement=method, agent={"name": "oracle"}, disclosed={}))
    assert lines["guarantee"] == "none reserved"
    assert lines["swap, oom policy"] == (
        "memory plus swap is twice the threshold; the first kill ends the trial"
    )
    assert lines["enforcement"].startswith("lenient 5 s; ")
    assert lines["visible cpus"] == "as many as the CPU limit allows"
    assert lines["inference endpoint"] == "none: the agent is not a model"


def test_the_lines_are_ten_and_printable():
    lines = card_lines(a_view([0.5, 0.6], disclosed={"inference-endpoint": "a\x1b[1mb\nc"}))
    assert len(lines) == 11
    assert all(line.text.isprintable() for line in lines)


def test_a_card_is_read_back(tmp_path):
    card = make_card(a_view([0.5, 0.6]))
    file = tmp_path / "card.json"
    file.write_text(json.dumps(card))
    assert read_card(file) == card
    assert [item["id"] for item in card["parameter_sets"]] == ["1x", "3x"]
    assert card["noise_band"]["floor"] == "1x"
    assert 0.4 < card["parameter_sets"][0]["success"] < 0.6
    assert not [name for name in card["configuration"] if "engine_id" in name]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"kind": "other"}', "\xff", '{"kind": 3, "schema_version": 1}']
)
def test_what_is_no_card_is_refused(tmp_path, text):
    file = tmp_path / "card.json"
    file.write_text(text, "latin-1")
    with pytest.raises(UsageError, match=r"card\.json: "):
        read_card(file)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda card: card.update(schema_version=2),
        lambda card: card.pop("tasks"),
        lambda card: card["parameter_sets"][0].update(success=7),
        lambda card: card["parameter_sets"][0].update(id=3),
        lambda card: card.update(configuration=[1]),
        lambda card: card.update(samples=[]),
    ],
)
def test_a_spoilt_card_is_refused(tmp_path, spoil):
    card = make_card(a_view([0.5, 0.6]))
    spoil(card)
    file = tmp_path / "card.json"
    file.write_text(json.dumps(card))
    with pytest.raises(UsageError, match=r"card\.json: "):
        read_card(file)
