"""docs/agents.md against the code: recipes that pytest reads, keys that are known."""

import ast
import re
from configparser import ConfigParser
from dataclasses import fields
from pathlib import Path

import pytest

from pytest_infranoise.agents import host
from pytest_infranoise.model.usage import Usage
from pytest_infranoise.plugin.options import OPTIONS
from pytest_infranoise.trial.model_api import LAST_LINES, TABLES, table_for

PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()
RECIPES = re.findall(r"### (\S+)\n\n```ini\n(.*?)```", PAGE, re.DOTALL)


def test_there_is_a_recipe_for_each_agent() -> None:
    assert [name for name, _ in RECIPES] == ["claude-code", "codex", "mini-swe-agent", "aider"]


@pytest.mark.parametrize(("name", "text"), RECIPES)
def test_a_recipe_is_read_and_its_agent_is_known(name: str, text: str) -> None:
    parser = ConfigParser(interpolation=None, delimiters=("=",))
    parser.read_string(text)
    values = parser["pytest"]
    assert set(values) <= {spec.dest for spec in OPTIONS}
    assert re.search(r"@[\d.]+$|==[\d.]+$", values["infra_agent_install"], re.MULTILINE)
    program = {"claude-code": "claude", "mini-swe-agent": "mini"}.get(name, name)
    assert set(TABLES[program]) <= set(table_for(values["infra_agent"]))
    others = {entry for other in TABLES if other != program for entry in TABLES[other]}
    assert others - set(table_for(values["infra_agent"])), "every table applies: none was chosen"
    assert not host.is_host_agent(values["infra_agent"].strip())


def test_every_key_of_the_usage_file_is_described() -> None:
    table = PAGE.partition("## What an agent has used")[2].partition("Other keys")[0]
    for item in fields(Usage):
        assert f"`{item.name}`" in table


def test_every_member_of_the_sandbox_is_described() -> None:
    table = PAGE.partition("| member | |")[2].partition("- **The deadline**")[0]
    own = {name for name in vars(host.AgentSandbox) if not name.startswith("_")}
    for name in own - {"shut", "wait_until_idle", "wall_seconds"}:
        assert re.search(rf"`{name}\b", table), name


def test_figures_and_blocks_hold() -> None:
    assert f"last\n{LAST_LINES} of its output" in PAGE
    assert f"is given {host.GRACE_SECONDS:g} seconds" in PAGE
    for block in re.findall(r"```python.*?\n(.*?)```", PAGE, re.DOTALL):
        ast.parse(block)
