"""The options about an agent and its attempts: what it is and needs, how often it is tried."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_infranoise import units
from pytest_infranoise.agents.base import Agent
from pytest_infranoise.agents.builtin import make_agent, parse_agent_files
from pytest_infranoise.agents.host import host_agent, is_host_agent
from pytest_infranoise.errors import UsageError
from pytest_infranoise.plugin.options import SPECS, option_value
from pytest_infranoise.plugin.suite import hook_agent, is_hook_agent

if TYPE_CHECKING:
    from pytest_infranoise.model.install import AgentInstall

REFERENCE = ("oracle", "nop")


@dataclass(frozen=True, slots=True)
class AttemptSettings:
    """How a trial is tried again that was not measured, and when a session gives up.

    `retries` is how many attempts may follow the first one that its model's provider refused;
    `pause_seconds` comes before the first of them and doubles each time. An engine is waited for
    `engine_seconds`. `max_in_row` failures of one cause, 0 for any number, and `max_cost_usd`, None
    for no limit, are what a session may come to.
    """

    retries: int
    pause_seconds: float
    engine_seconds: float
    max_in_row: int
    max_cost_usd: float | None

    def pause_before(self, retry: int) -> float:
        """Return how long to wait before a retry, numbered from 1."""
        return self.pause_seconds * 2.0 ** (retry - 1)


def read_attempt_settings(config: pytest.Config) -> AttemptSettings:
    """Parse the options.

    Raises:
        UsageError: one line that names the option, the value and what is accepted.
    """

    def given(name: str, parse: Any) -> Any:
        value = option_value(config, name)
        return None if value is None else parse(str(value), where=place_of(config, name))

    return AttemptSettings(
        retries=given("model-api-retries", _count),
        pause_seconds=given("model-api-pause", _pause),
        engine_seconds=given("engine-timeout", _pause),
        max_in_row=given("max-consecutive-infra", _count),
        max_cost_usd=given("max-cost", _dollars),
    )


def place_of(config: pytest.Config, name: str) -> str:
    """Return how the user gave an option: on the command line, or in which ini file."""
    spec = SPECS[name]
    if getattr(config.option, spec.dest, None) is not None:
        return spec.flag
    return f"{config.inipath}: {spec.dest}"


def choose_agent(config: pytest.Config, text: str) -> Agent:
    """Return the agent that `--infra-agent` names.

    An ini file describes an agent of its own; what it says of files is not the oracle's or nop's.

    Raises:
        UsageError: there is no such agent.
    """
    text = text.strip()
    files = option_value(config, "agent-files")
    if is_hook_agent(text):
        return hook_agent(config, text)
    if is_host_agent(text):
        if files:
            raise UsageError(
                f"{place_of(config, 'agent-files')}: the function {text} runs on this host; let it "
                "put its files into the sandbox itself"
            )
        return host_agent(text, config.rootpath)
    is_ini = getattr(config.option, SPECS["agent-files"].dest, None) is None
    return make_agent(text, () if text in REFERENCE and is_ini else files)


def choose_install(config: pytest.Config, agent: Agent) -> "AgentInstall | None":
    """Return the agent's install step, None without one; a reference solution needs none.

    Raises:
        UsageError: it cannot be read, or is asked for on the command line and nobody needs it.
    """
    text = option_value(config, "agent-install")
    if text is None:
        return None
    if agent.is_reference:
        if getattr(config.option, SPECS["agent-install"].dest, None) is None:
            return None
        raise UsageError(f"--infra-agent-install: the {agent.name} agent needs no installation")
    from pytest_infranoise.agents.install import make_install

    files = parse_agent_files(option_value(config, "agent-files"))
    return make_install(text, files, root=config.rootpath)


def _count(text: str, *, where: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise UsageError(f"{where}: {text!r} is not a whole number from 0 on")
    return number


def _pause(text: str, *, where: str) -> float:
    return 0.0 if text.strip() in ("0", "0s") else units.parse_seconds(text, where=where)


def _dollars(text: str, *, where: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    if not (math.isfinite(amount) and amount > 0):
        raise UsageError(f"{where}: {text!r} is not an amount above 0; write for example 12.50")
    return amount
