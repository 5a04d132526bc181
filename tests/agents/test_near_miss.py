"""A word that was meant to be an agent's name is no command."""

import pytest

from pytest_infranoise.agents.builtin import CommandAgent, make_agent
from pytest_infranoise.errors import UsageError


@pytest.mark.parametrize(
    ("word", "meant"),
    [("orakle", "oracle"), ("Oracle", "oracle"), ("ORACEL", "oracle"), ("noop", "nop"),
     ("NOP", "nop"), ("hooks", "hook"), ("orakle  ", "oracle")],
)  # fmt: skip
def test_a_misspelt_name_is_refused_with_the_name_that_was_meant(word: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"is not an agent; did you mean {meant}") as caught:
        make_agent(word)
    assert f"'exec {word.strip()}'" in str(caught.value)


@pytest.mark.parametrize(
    "command", ["true", "claude", "bash", "top", "node", "./orakle", "exec orakle", "oracle;true"]
)
def test_any_other_word_is_a_command(command: str) -> None:
    assert make_agent(command) == CommandAgent(command)
