"""What runs a script: its own first line, but never a program that an agent has put on PATH."""

from typing import Any

import pytest

from pytest_infranoise.agents.shell import script_command


class Image:
    def __init__(self, *programs: str) -> None:
        self.programs = programs

    def program(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.programs else None

    def read(self, path: str, *, max_bytes: int) -> bytes:
        return b"#!/bin/zsh\n"


@pytest.mark.parametrize(
    ("text", "programs", "command"),
    [
        ("#!/bin/sh\ntrue\n", (), ["/bin/sh", "/t"]),
        ("#!/bin/bash -e\n", (), ["/bin/bash", "-e", "/t"]),
        ("#! /bin/sh -e -u \n", (), ["/bin/sh", "-e -u", "/t"]),
        ("#!/usr/bin/env bash\n", ("bash",), ["/usr/bin/bash", "/t"]),
        ("#!/usr/bin/env python3.11\n", ("python3.11",), ["/usr/bin/python3.11", "/t"]),
        ("#!/usr/bin/env -S bash -eu\n", ("bash",), ["/usr/bin/bash", "-eu", "/t"]),
        ("#!/usr/bin/env conda\n", ("bash",), ["/usr/bin/env", "conda", "/t"]),
        ("#!/usr/bin/env A=1 bash\n", ("bash",), ["/usr/bin/env", "A=1 bash", "/t"]),
        ("#!/usr/bin/env ./own\n", ("bash",), ["/usr/bin/env", "./own", "/t"]),
        ("true\n", ("bash", "sh"), ["/usr/bin/bash", "/t"]),
        ("true\n", ("sh",), ["/bin/sh", "/t"]),
        ("true\n", (), ["/bin/sh", "/t"]),
        ("#!\ntrue\n", ("sh",), ["/bin/sh", "/t"]),
        (None, (), ["/bin/zsh", "/t"]),
    ],
)
def test_commands(text: str | None, programs: tuple[str, ...], command: list[str]) -> None:
    sandbox: Any = Image(*programs)
    assert script_command(sandbox, "/t", text) == command
