"""What one trial's compose file is made of."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_infranoise.backends.docker.compose_host import check_model
from pytest_infranoise.backends.docker.compose_model import TrialSettings, ignored, trial_file
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.task import ComposeSource, HelperService
from pytest_infranoise.units import MIB

FILE = "docker-compose.yaml"
SOURCE = ComposeSource(
    file=Path("/task/environment/docker-compose.yaml"),
    place=FILE,
    helpers=(HelperService("db", 64 * MIB, 32 * MIB, 0.5, 0.5),),
)


def file_of(own: Any = None, db: Any = None, *, top: Any = None, **settings: Any) -> Any:
    model = {"services": {"main": own or {}, "db": db or {"image": "x"}}, **(top or {})}
    values = {"images": {"main": "own", "db": "helper"}, "labels": {"ours": "a$b"}, **settings}
    return trial_file(model, SOURCE, TrialSettings(**values))


def test_every_part_carries_our_labels_and_no_shared_name() -> None:
    top = {"networks": {"back": {"name": "all"}}, "volumes": {"data": {"name": "all"}}}
    made = file_of(db={"container_name": "all", "labels": ["own=1"]}, top=top)
    labels = {"ours": "a$$b"}
    assert made["networks"] == {"default": {"labels": labels}, "back": {"labels": labels}}
    assert made["volumes"] == {"data": {"labels": labels}}
    assert made["services"]["db"]["labels"] == {"own": "1", **labels}
    assert "container_name" not in made["services"]["db"]
    assert made["services"]["db"]["networks"] == {"default": {"aliases": ["all"]}}


def test_a_helper_has_its_own_limits_and_no_way_around_them() -> None:
    declared = {
        "image": "x",
        "restart": "always",
        "deploy": {"resources": {"limits": {"memory": "1G"}}},
        "memswap_limit": -1,
        "oom_kill_disable": True,
        "cgroup_parent": "/elsewhere",
        "ports": ["80:80"],
        "command": ["serve"],
    }
    made = file_of(db=declared, cgroup_parent="ceiling")["services"]["db"]
    assert made["image"] == "helper"
    assert made["mem_limit"] == made["memswap_limit"] == 64 * MIB
    assert (made["cpus"], made["restart"], made["command"]) == (0.5, "no", ["serve"])
    assert made["cgroup_parent"] == "ceiling"
    assert not {"deploy", "oom_kill_disable", "ports"} & set(made)


def test_the_main_service_gets_our_settings_over_its_own() -> None:
    main = {
        "build": {"context": "."},
        "command": "serve",
        "mem_limit": "1g",
        "user": "app",
        "environment": ["A=1", "B=$$x", "C"],
        "depends_on": {"db": {"condition": "service_healthy"}},
    }
    ours = {"mem_limit": 5, "entrypoint": ["hold"], "command": [], "user": "0"}
    made = file_of(main, main=ours, environment={"A": "2", "D": "p$q"})["services"]["main"]
    assert {key: made[key] for key in ours} == ours
    assert made["environment"] == {"A": "2", "B": "$$x", "C": None, "D": "p$$q"}
    assert made["depends_on"] == main["depends_on"]
    assert made["healthcheck"] == {"disable": True}
    assert "build" not in made


def test_a_healthcheck_that_the_file_itself_asks_for_stays() -> None:
    check = {"test": ["CMD", "true"]}
    assert file_of({"healthcheck": check})["services"]["main"]["healthcheck"] == check


def test_a_main_service_that_the_file_leaves_out_is_made() -> None:
    model = {"services": {"db": {"image": "x"}}}
    settings = TrialSettings({"main": "own", "db": "helper"}, {}, {"mem_limit": 5})
    made = trial_file(model, SOURCE, settings)["services"]["main"]
    assert (made["image"], made["mem_limit"]) == ("own", 5)


def test_without_network_services_see_each_other_only() -> None:
    made = file_of(top={"networks": {"back": {}}}, has_network=False)
    assert {item["internal"] for item in made["networks"].values()} == {True}


def test_folders_of_logs_become_volumes_that_services_share() -> None:
    mounts = ["/infranoise-logs/verifier:/logs/verifier:rw", "data:/data", "/cache"]
    long = {"type": "bind", "source": "/infranoise-logs/verifier", "target": "/in"}
    made = file_of({"volumes": mounts}, {"volumes": [long]}, top={"volumes": {"data": None}})
    volume = {"type": "volume", "source": "infranoise-logs-verifier"}
    assert made["services"]["main"]["volumes"] == [
        {**volume, "target": "/logs/verifier"},
        {"type": "volume", "source": "data", "target": "/data", "read_only": False},
        {"type": "volume", "target": "/cache"},
    ]
    assert made["services"]["db"]["volumes"] == [{**volume, "target": "/in"}]
    assert set(made["volumes"]) == {"data", "infranoise-logs-verifier"}


def test_a_service_with_the_network_of_another_is_in_none_of_its_own() -> None:
    assert "networks" not in file_of(db={"network_mode": "service:main"})["services"]["db"]


@pytest.mark.parametrize(
    ("service", "top", "key"),
    [
        ({"privileged": True}, {}, "services.db.privileged"),
        ({"network_mode": "host"}, {}, "services.db.network_mode"),
        ({"pid": "host"}, {}, "services.db.pid"),
        ({"ipc": "host"}, {}, "services.db.ipc"),
        ({"volumes": ["/tmp/x:/x"]}, {}, "services.db.volumes"),
        ({"volumes": ["/tmp/x:/x:rw"]}, {}, "services.db.volumes"),
        (
            {"volumes": [{"type": "bind", "source": "/tmp/x", "target": "/x"}]},
            {},
            "services.db.volumes",
        ),
        ({"volumes": ["/var/run/docker.sock:/s:ro"]}, {}, "services.db.volumes"),
        ({"volumes": ["/task/environment/x.sock:/s:ro"]}, {}, "services.db.volumes"),
        ({"volumes": ["/var/run:/s:ro"]}, {}, "services.db.volumes"),
        ({"volumes": ["/:/s:ro"]}, {}, "services.db.volumes"),
        ({"volumes": ["/task/../etc:/s:ro"]}, {}, "services.db.volumes"),
        ({"volumes": ["/task-other:/s:ro"]}, {}, "services.db.volumes"),
        ({"cgroup": "host"}, {}, "services.db.cgroup"),
        ({"userns_mode": "host"}, {}, "services.db.userns_mode"),
        ({"uts": "host"}, {}, "services.db.uts"),
        ({"pid": "container:other"}, {}, "services.db.pid"),
        ({"network_mode": "container:other"}, {}, "services.db.network_mode"),
        ({"devices": ["/dev/sda:/dev/sda"]}, {}, "services.db.devices"),
        ({"device_cgroup_rules": ["a *:* rwm"]}, {}, "services.db.device_cgroup_rules"),
        ({"cap_add": ["NET_ADMIN", "CAP_SYS_ADMIN"]}, {}, "services.db.cap_add"),
        ({"cap_add": ["all"]}, {}, "services.db.cap_add"),
        ({"security_opt": ["systempaths=unconfined"]}, {}, "services.db.security_opt"),
        ({"volumes_from": ["container:other"]}, {}, "services.db.volumes_from"),
        ({"use_api_socket": True}, {}, "services.db.use_api_socket"),
        ({"provider": {"type": "x"}}, {}, "services.db.provider"),
        ({"post_start": [{"privileged": True}]}, {}, "services.db.post_start.privileged"),
        ({"build": "/etc"}, {}, "services.db.build.context"),
        ({"build": {"context": "/task/.."}}, {}, "services.db.build.context"),
        (
            {"build": {"context": "/task", "additional_contexts": {"a": "/etc"}}},
            {},
            "services.db.build.context",
        ),
        ({"build": {"context": "/task", "ssh": ["default"]}}, {}, "services.db.build.ssh"),
        ({"build": {"context": "/task", "network": "host"}}, {}, "services.db.build.network"),
        ({}, {"secrets": {"s": {"file": "/etc/shadow"}}}, "secrets.s.file"),
        ({}, {"configs": {"c": {"file": "/etc/shadow"}}}, "configs.c.file"),
        (
            {},
            {"volumes": {"v": {"driver_opts": {"type": "none", "o": "bind", "device": "/"}}}},
            "volumes.v.driver_opts.device",
        ),
        ({}, {"networks": {"n": {"external": True}}}, "networks.n.external"),
        ({}, {"volumes": {"v": {"external": {"name": "x"}}}}, "volumes.v.external"),
    ],
)
def test_what_is_shared_or_the_hosts_is_refused(service: Any, top: Any, key: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_model({"services": {"db": service}, **top}, SOURCE)
    assert str(caught.value).startswith(f"{FILE}: {key}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "service",
    [
        {"volumes": ["/task/data:/x:ro", "data:/data"], "privileged": False},
        {"volumes": [{"type": "bind", "source": "/task/t", "target": "/x", "read_only": True}]},
        {"build": {"context": "/task/environment", "args": {"A": "1"}}},
        {"cap_add": ["NET_ADMIN", "SYS_PTRACE"], "security_opt": ["seccomp:unconfined"]},
        {"pid": "service:main", "network_mode": "service:main", "devices": []},
        {"volumes": ["/infranoise-logs/agent:/logs/agent"]},
        {"network_mode": "none", "privileged": True, "profiles": ["never"]},
    ],
)
def test_what_is_fine(service: Any) -> None:
    check_model({"services": {"db": service}}, SOURCE)


def test_symlinks_do_not_lead_out_of_the_task(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "out").symlink_to("/etc")
    (folder / "in").mkdir()
    (tmp_path / "link").symlink_to(folder)
    source = replace(SOURCE, file=tmp_path / "link" / "docker-compose.yaml")
    check_model({"services": {"db": {"volumes": [f"{tmp_path}/link/in:/x:ro"]}}}, source)
    with pytest.raises(UsageError, match=r"volumes: .*/task/out lies outside the task's folder"):
        check_model({"services": {"db": {"volumes": [f"{folder}/out:/x:ro"]}}}, source)


def test_services_of_another_file_are_refused() -> None:
    with pytest.raises(UsageError, match=r"services\.extra: comes from another file"):
        check_model({"services": {"extra": {}}}, SOURCE)


@pytest.mark.parametrize(
    ("service", "main", "words"),
    [
        ({}, {}, []),
        ({"ports": ["1:1"]}, {}, ["ports"]),
        ({"restart": "always"}, {}, ["restart"]),
        ({"restart": "no", "command": "serve"}, {"command": ["sh", "-c", "sleep infinity"]}, []),
        ({}, {"command": "tail -f /dev/null"}, []),
        ({}, {"command": "serve", "entrypoint": ["x"]}, ["main.command"]),
        ({}, {"deploy": {"resources": {}}}, ["main: limits"]),
    ],
)
def test_what_has_no_effect_is_said(service: Any, main: Any, words: list[str]) -> None:
    found = list(ignored({"services": {"main": main, "db": service}}, SOURCE))
    assert len(found) == len(words)
    assert all(f": {word}" in text for word, text in zip(words, found, strict=True))
