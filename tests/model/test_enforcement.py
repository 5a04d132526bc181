"""Methods of enforcement: how they are named, what they mean, how they differ."""

from pathlib import Path
from typing import Any

import pytest

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.enforcement import (
    PRESETS,
    THREAD_VARIABLES,
    Enforcement,
    choose_enforcement,
    enforcement_words,
    method_differences,
    parse_enforcement,
    preset_multipliers,
    thread_environment,
    whole_cores,
)
from pytest_infranoise.model.resources import Allocation

WHERE = "--infra-enforcement"
GIVEN = Allocation(100, 300, 1.0, 3.0, ("a note",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hard", Enforcement()),
        (" HARD ", Enforcement()),
        ("lenient:5", Enforcement(lenient_seconds=5.0)),
        ("lenient:0.5s", Enforcement(lenient_seconds=0.5)),
        ("lenient:3600", Enforcement(lenient_seconds=3600.0)),
        ("k8s-1x", Enforcement("container", preset="k8s-1x")),
        ("k8s-1x-3x", Enforcement("container", preset="k8s-1x-3x")),
        ("harbor-docker", Enforcement(reserves=False, swap="twice", preset="harbor-docker")),
    ],
)
def test_names_of_methods(text: str, expected: Enforcement) -> None:
    assert parse_enforcement(text, where=WHERE) == expected


@pytest.mark.parametrize(
    "text",
    ["", "soft", "lenient", "lenient:", "lenient:0", "lenient:-1", "lenient:x", "lenient:3601",
     "lenient:1e3", "lenient:nan", "lenient:inf", "hard:5", "k8s", "k8s-2x"],
)  # fmt: skip
def test_what_is_no_method_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_enforcement(text, where=WHERE)
    assert str(caught.value).startswith(WHERE)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("enforcement", "words"),
    [
        (Enforcement(), "hard limit, oom policy process"),
        (Enforcement("container"), "hard limit, oom policy container"),
        (Enforcement(lenient_seconds=5), "lenient 5 s, oom policy process"),
        (
            Enforcement(visible="limit"),
            "hard limit, oom policy process, tasks see their CPU limit",
        ),
        (
            PRESETS["harbor-docker"].enforcement,
            "hard limit, oom policy process, no reservation, memory plus swap twice the limit "
            "(harbor-docker)",
        ),
    ],
)
def test_words(enforcement: Enforcement, words: str) -> None:
    assert enforcement.words() == words
    assert enforcement.facts("hard limit")["words"] == words


def test_the_engine_s_own_way_stands_in_the_words() -> None:
    assert Enforcement().words("watchdog") == "watchdog, oom policy process"


def choose(method: str, **given: Any) -> Enforcement:
    return choose_enforcement(method, where=WHERE, **given)


def test_an_option_that_says_the_same_as_the_preset_is_no_contradiction() -> None:
    policy = ("container", "--infra-oom-policy")
    assert choose("k8s-1x", oom_policy=policy) == PRESETS["k8s-1x"].enforcement
    assert choose("k8s-1x", admit=("limit", "--infra-admit")) == PRESETS["k8s-1x"].enforcement


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("k8s-1x", {"oom_policy": ("process", "--infra-oom-policy")}),
        ("k8s-1x-3x", {"oom_policy": ("process", "setup.cfg: infra_oom_policy")}),
        ("harbor-docker", {"oom_policy": ("container", "--infra-oom-policy")}),
        ("harbor-docker", {"admit": ("guarantee", "--infra-admit")}),
    ],
)
def test_a_contradiction_names_both(method: str, given: dict[str, tuple[str, str]]) -> None:
    with pytest.raises(UsageError) as caught:
        choose(method, **given)
    (value, place), message = next(iter(given.values())), str(caught.value)
    assert f"{WHERE}={method}" in message
    assert f"{place}={value}" in message


def test_policy_and_visibility_of_a_method_without_a_name() -> None:
    policy = ("container", "--infra-oom-policy")
    assert choose("lenient:2", oom_policy=policy, visible="limit") == Enforcement(
        "container", 2.0, visible="limit"
    )


@pytest.mark.parametrize(
    ("method", "multipliers"),
    [("k8s-1x", "1"), ("K8S-1x-3x", "3"), ("harbor-docker", "1"), ("hard", None), (None, None),
     ("lenient:5", None)],
)  # fmt: skip
def test_multipliers_of_presets(method: str | None, multipliers: str | None) -> None:
    assert preset_multipliers(method) == multipliers


def test_what_trial_and_engine_are_given() -> None:
    assert Enforcement("container").for_engine(GIVEN) == GIVEN
    lenient = Enforcement(lenient_seconds=5)
    assert lenient.granted(GIVEN) == GIVEN
    assert lenient.for_engine(GIVEN) == Allocation(100, None, 1.0, 3.0, ("a note",))
    unreserved = Enforcement(reserves=False)
    assert unreserved.granted(GIVEN) == Allocation(0, 300, None, 3.0, ("a note",))


@pytest.mark.parametrize(
    ("cores", "threads"),
    [(None, None), (0.1, "1"), (1.0, "1"), (1.01, "2"), (3.0, "3"), (3.5, "4")],
)
def test_thread_variables_follow_the_limit(cores: float | None, threads: str | None) -> None:
    expected = {} if threads is None else dict.fromkeys(THREAD_VARIABLES, threads)
    assert thread_environment(cores) == expected


@pytest.mark.parametrize(
    ("cores", "whole"), [(None, None), (0.5, None), (1.0, 1), (1.5, None), (4.0, 4)]
)
def test_whole_cores(cores: float | None, whole: int | None) -> None:
    assert whole_cores(cores) == whole


def test_the_one_list_of_thread_variables_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "measurement.md").read_text("utf-8")
    assert [name for name in THREAD_VARIABLES if f"`{name}`" not in page] == []
    assert list(THREAD_VARIABLES) == sorted(set(THREAD_VARIABLES))


# --- studies -------------------------------------------------------------------------------------


def manifest(enforcement: Enforcement | None, engine: str | None = "hard limit") -> dict[str, Any]:
    made: dict[str, Any] = {}
    if engine is not None:
        made["backend"] = {"enforcement": engine}
        if enforcement is not None:
            made["enforcement"] = enforcement.facts(engine)
    return made


def test_words_of_a_manifest() -> None:
    assert enforcement_words(manifest(Enforcement("container"))) == (
        "hard limit, oom policy container"
    )
    assert enforcement_words(manifest(None)) == "hard limit, oom policy process"
    assert enforcement_words(manifest(None, None)) is None


@pytest.mark.parametrize(
    ("first", "second", "differences"),
    [
        (manifest(Enforcement()), manifest(None), []),
        (manifest(PRESETS["k8s-1x"].enforcement), manifest(Enforcement("container")), []),
        (
            manifest(Enforcement()),
            manifest(Enforcement("container")),
            ["oom policy: process and container"],
        ),
        (
            manifest(Enforcement(lenient_seconds=5)),
            manifest(Enforcement(visible="limit")),
            ["tolerated overrun in seconds: 5 and none", "what tasks see: host and limit"],
        ),
        (
            manifest(Enforcement()),
            manifest(Enforcement(), "watchdog"),
            ["enforcement: hard limit and watchdog"],
        ),
        (manifest(Enforcement()), manifest(None, None), []),
    ],
)
def test_differences(first: dict[str, Any], second: dict[str, Any], differences: list[str]) -> None:
    assert method_differences(first, second) == differences
