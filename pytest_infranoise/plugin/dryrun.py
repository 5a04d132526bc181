"""`--infra-dry-run`: what would run, with which limits, and nothing else."""

from typing import Any

import pytest

from pytest_infranoise.design import agent_timeout
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.resources import Allocation
from pytest_infranoise.plugin.items import TRIAL, TrialItem
from pytest_infranoise.plugin.marked import plan_marked
from pytest_infranoise.plugin.runtime import Runtime
from pytest_infranoise.plugin.summary import design_words
from pytest_infranoise.units import format_cores, format_size


def print_plan(runtime: Runtime, session: pytest.Session) -> None:
    """Print every task's guarantee and limits per parameter set, then the trials in order.

    Raises:
        pytest.UsageError: markers cannot be used, a line each; the plan of the others was printed.
    """
    terminal: Any = session.config.pluginmanager.getplugin("terminalreporter")
    if terminal is None:
        return
    trials = [item.stash[TRIAL] for item in session.items if TRIAL in item.stash]
    problems = _marked_problems(runtime, session)
    terminal.section("infrastructure noise: dry run")
    for line in limit_lines(runtime):
        terminal.write_line(line)
    terminal.write_line("")
    terminal.write_line(f"{len(trials)} trials in this order (seed {runtime.handover.seed}):")
    for task, parameter_set, sample in trials:
        terminal.write_line(f"  {task} {parameter_set} s{sample}")
    for line in design_words(runtime):
        terminal.write_line(f"with an agent, {line}" if runtime.agent.is_reference else line)
    terminal.write_line("nothing was run")
    if problems:
        raise pytest.UsageError(*problems)


def _marked_problems(runtime: Runtime, session: pytest.Session) -> list[str]:
    """Return what is wrong with marked tests, once per test."""
    problems: dict[str, None] = {}
    for item in session.items:
        if TRIAL in item.stash and not isinstance(item, TrialItem):
            try:
                plan_marked(runtime, item)
            except UsageError as error:
                problems[str(error)] = None
    return list(problems)


def limit_lines(runtime: Runtime) -> list[str]:
    """Return a table: a row per task and parameter set: guarantee, limits, deadline, notes."""
    heading = ("task", "set", "guarantee", "kill threshold", "cpu limit", "agent deadline", "notes")
    rows: list[tuple[str, ...]] = [heading]
    selected = {item.name for item in runtime.selected_tasks}
    own = {task: given for task, given in runtime.table.allocations.items() if task in selected}
    for task, by_set in {**own, **runtime.known_allocations}.items():
        for parameter_set, given in by_set.items():
            seconds = agent_timeout(runtime.tasks[task], runtime.sets[parameter_set])
            rows.append((task, parameter_set, *_cells(given.effective, seconds)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _cells(allocation: Allocation, deadline_seconds: float | None) -> tuple[str, ...]:
    guarantee = format_size(allocation.memory_guarantee_bytes)
    if allocation.cpu_guarantee_cores is not None:
        guarantee += f", {format_cores(allocation.cpu_guarantee_cores)}"
    return (
        guarantee,
        format_size(allocation.memory_limit_bytes),
        format_cores(allocation.cpu_limit_cores),
        "none" if deadline_seconds is None else f"{deadline_seconds:g} s",
        "; ".join(allocation.notes),
    )
