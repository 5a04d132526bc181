"""How the engine's events of a container's end are read."""

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_infranoise.backends.docker import deaths
from pytest_infranoise.backends.docker.deaths import Death, remembered_death
from pytest_infranoise.backends.docker.kernel_log import LoggedKill, parse_kill

SECOND = 10**9


@pytest.mark.parametrize(
    ("killed_at", "ended_at", "by_kill"),
    [
        (10 * SECOND, 10 * SECOND + 8_000_000, True),
        (10 * SECOND, 12 * SECOND, True),  # a slow engine
        (12 * SECOND, 10 * SECOND, True),  # its news in the other order
        (10 * SECOND, 13 * SECOND, False),  # it lived on
        (None, 10 * SECOND, False),
        (10 * SECOND, None, None),
        (None, None, None),
    ],
)
def test_a_container_died_by_the_kill_that_its_end_came_with(killed_at, ended_at, by_kill):
    assert Death(killed_at, ended_at).by_kill is by_kill


def engine(*news: list[tuple[str, int]]) -> Any:
    """An engine that tells more at each question."""
    told = iter(news)

    def events(**_: Any) -> list[dict[str, Any]]:
        return [{"status": kind, "timeNano": when} for kind, when in next(told)]

    return SimpleNamespace(api=SimpleNamespace(events=events))


def test_news_of_a_kill_that_comes_late_is_waited_for():
    client = engine([], [("die", 5)], [("die", 5), ("oom", 7)])
    assert remembered_death(client, "c") == Death(killed_at=7, ended_at=5)


def test_an_engine_that_tells_of_no_kill_is_believed_after_a_while(monkeypatch):
    monkeypatch.setattr(deaths, "_NEWS_SECONDS", 0.0)
    assert remembered_death(engine([("die", 5)]), "c") == Death(killed_at=None, ended_at=5)


ID = "4f0c"
KILL = (
    "oom-kill:constraint={kind},nodemask=(null),cpuset=/,mems_allowed=0,{limit}task_memcg={group},"
)


@pytest.mark.parametrize(
    ("kind", "limit", "group", "expected"),
    [
        ("CONSTRAINT_MEMCG", "/docker/4f0c", "/docker/4f0c", LoggedKill(77, True)),
        ("CONSTRAINT_MEMCG", "/a.slice/docker-4f0c.scope", "/a.slice/docker-4f0c.scope/inner",
         LoggedKill(77, True)),
        ("CONSTRAINT_MEMCG", "/infranoise-study-x", "/infranoise-study-x/4f0c",
         LoggedKill(77, False)),
        ("CONSTRAINT_NONE", None, "/docker/4f0c", LoggedKill(77, False)),
        ("CONSTRAINT_MEMCG", "/docker/another", "/docker/another", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["dd", "a,pid=1,uid=0", "4f0c"])
def test_a_kill_in_the_kernels_log(kind, limit, group, expected, name):
    above = "global_oom," if limit is None else f"oom_memcg={limit},"
    line = "6,1,2,-;" + KILL.format(kind=kind, limit=above, group=group)
    line += f"task={name},pid=77,uid=0\n"
    assert parse_kill(line, ID) == expected


def test_other_records_are_no_kills():
    for line in ("", "6,1,2,-;dd invoked oom-killer: gfp_mask=0x0 4f0c", "4f0c,pid=1,uid=0"):
        assert parse_kill(line, ID) is None
