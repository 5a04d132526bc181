from pathlib import Path

MARK = "NEVER_SEEN_BY_THE_AGENT"


def test_state() -> None:
    assert Path("/app/state.txt").read_text() == "ready\n"


def test_the_agent_could_not_find_the_tests() -> None:
    assert Path("/app/found.txt").read_text() == ""
