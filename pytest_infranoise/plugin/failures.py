"""What pytest shows of a failure, for marked tests that its own list of failures passes over.

A trial's category (`oom`, `timeout`, `infra`) is none that pytest explains at length.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from pytest_infranoise.plugin.recorder import ATTRIBUTE, VERDICT_ATTRIBUTE
from pytest_infranoise.report.model import one_line

_HEADED = ("oom", "timeout", "infra", "not passed", "not measured")
"""Categories of ours, in the order in which they are shown."""

_LINE_CHARACTERS = 200


def print_failures(terminal: Any, *, as_data: bool) -> None:
    """Print tracebacks and captured output, as `--tb` and `--show-capture` want them.

    Where trials are data (`as_data`), only `-v` asks for that. The shortest form of pytest's
    output, `-q`, has no list of trials, so there each is named in a line.
    """
    verbosity, style = terminal.config.option.verbose, terminal.config.option.tbstyle
    if style != "no" and (verbosity > 0 or not as_data):
        for category in _HEADED:
            _print_category(terminal, category, in_lines=style == "line")
    if verbosity < 0 and terminal.hasopt("f"):
        for category in _HEADED:
            for report in _failed(terminal, category):
                terminal.write_line(_line(category, report))


def _failed(terminal: Any, category: str) -> Iterator[pytest.TestReport]:
    for report in terminal.stats.get(category, ()):
        if report.failed and hasattr(report, VERDICT_ATTRIBUTE):
            yield report


def _print_category(terminal: Any, category: str, *, in_lines: bool) -> None:
    reports = list(_failed(terminal, category))
    if not reports:
        return
    terminal.write_sep("=", category.upper())
    for report in reports:
        if in_lines:
            terminal.write_line(_crash(report))
        else:
            _print_report(terminal, report)


def _print_report(terminal: Any, report: pytest.TestReport) -> None:
    terminal.write_sep("_", report.head_line or report.nodeid, red=True, bold=True)
    report.toterminal(terminal._tw)  # the one writer that knows width and colours
    shown = terminal.config.option.showcapture
    teardown = (
        section
        for late in terminal.getreports("")
        if late.nodeid == report.nodeid and late.when == "teardown"
        for section in late.sections
        if "teardown" in section[0]
    )
    for name, content in (*report.sections, *teardown):
        if shown == "all" or (shown != "no" and shown in name):
            terminal.write_sep("-", name)
            terminal.write(content if content.endswith("\n") else f"{content}\n")


def _crash(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return one_line(str(crash or report.longreprtext), _LINE_CHARACTERS)


def _line(category: str, report: pytest.TestReport) -> str:
    record = getattr(report, ATTRIBUTE)
    why = record["detail"] or record["cause"] or _crash(report)
    return f"{category.upper()} {report.nodeid} - {one_line(why, _LINE_CHARACTERS)}"
