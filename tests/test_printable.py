"""What engines, images and agents print reaches a terminal as plain text."""

import pytest

from pytest_infranoise.backends.docker.failures import one_line
from pytest_infranoise.model.outcome import Cause, Outcome
from pytest_infranoise.plugin.items import describe
from pytest_infranoise.printable import printable
from pytest_infranoise.report import model

RED = "\x1b[91m"
CASES = [
    (f"{RED}no-such-program: not found\x1b[0m", "no-such-program: not found"),
    ("\x1b]0;a title\x07rest", "rest"),
    ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
    ("a\x1b[2K\x1b[1Gb", "ab"),
    ("\x9b31mred", "red"),
    ("\x1bcreset", "reset"),
    ("cut off\x1b", "cut off"),
    ("bell\x07 and \u202eback", "bell  and  back"),
    ("one\r\ntwo\tthree", "one\ntwo\tthree"),
    ("plain: \u00e4 \u732b", "plain: \u00e4 \u732b"),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_what_steers_a_terminal_is_taken_out(text: str, expected: str) -> None:
    assert printable(text) == expected
    assert one_line(text) == " ".join(expected.split())
    assert model.one_line(text).isprintable()


def test_a_trial_that_failed_is_described_in_plain_text() -> None:
    class Record:
        task, parameter_set, outcome, cause = "t", "1x", Outcome.INFRA_ERROR, Cause.IMAGE
        detail, phases = f"docker: {RED}refused", ()

    assert describe(Record()) == "t at 1x: infra_error (image)\ndocker: refused"  # type: ignore[arg-type]
