"""A calibration as lines for people and as data for programs."""

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_infranoise.analysis.calibration import (
    AgentNeed,
    AgentSummary,
    Calibration,
    ExpectedRate,
    TaskProposal,
)
from pytest_infranoise.analysis.figures import percent, plural
from pytest_infranoise.model.resources import ResourceSpec
from pytest_infranoise.report.calibration import CalibratedTask, CalibrationReport
from pytest_infranoise.report.model import Column, Line, Style, one_line, table_lines
from pytest_infranoise.statistics.thresholds import Need, NeedStatus
from pytest_infranoise.units import format_cores, format_size

CALIBRATION_SCHEMA_VERSION = 1

_STYLES: Mapping[NeedStatus, Style] = {
    NeedStatus.SHOWN: "good",
    NeedStatus.PROVISIONAL: "plain",
    NeedStatus.AT_LEAST: "bad",
    NeedStatus.UNKNOWN: "bad",
}


def calibration_lines(report: CalibrationReport, *, verbosity: int = 0) -> list[Line]:
    """Return the proposal: one row per task, then what it comes to for each agent."""
    calibration = report.calibration
    agents = len(calibration.agents)
    names = ", ".join(f'"{one_line(item.agent, 60)}"' for item in calibration.agents)
    lines = [Line(f"{plural(len(calibration.tasks), 'task')}, agent {names}")]
    lines += [Line(f"measured by {one_line(words, 160)}") for words in report.engines]
    lines += _table(report)
    if verbosity > 0:
        lines += _agent_table(calibration)
    lines += [line for item in calibration.agents for line in _summary_lines(item, calibration)]
    lines += _notes(calibration)
    if agents == 1:
        lines.append(
            Line("one agent only: what another one needs is not known; give its study too", "warn")
        )
    else:
        lines.append(
            Line(f"over {agents} agents: each value is the largest that one of them needs")
        )
    return lines


def _table(report: CalibrationReport) -> list[Line]:
    columns = [
        Column("task"),
        Column("trials", ">"),
        Column("peak", ">"),
        Column("killed"),
        Column("declared", ">"),
        Column("guarantee", ">"),
        Column("kill threshold", ">"),
        Column("kills, at most", ">"),
        Column(""),
    ]
    tasks = report.calibration.tasks
    rows = [_row(item, report.tasks[item.task]) for item in tasks]
    heading, *lines = table_lines(columns, rows)
    styled = (
        Line(line.text, _STYLES[item.status]) for line, item in zip(lines, tasks, strict=True)
    )
    return [heading, *styled]


def _row(item: TaskProposal, task: CalibratedTask) -> list[str]:
    peaks = [need.peak for need in item.agents if need.peak is not None]
    values = ["-", "-", "-"]
    if item.limit is not None and item.guarantee is not None and item.upper is not None:
        values = [format_size(item.guarantee), format_size(item.limit), percent(item.upper)]
    return [
        one_line(item.task, 60),
        str(sum(need.n_judged for need in item.agents)),
        format_size(max(peaks)) if peaks else "-",
        _kills(item) or "none",
        _declared(task.spec),
        *values,
        _status_words(item),
    ]


def _declared(spec: ResourceSpec) -> str:
    limit, guarantee = spec.memory_limit_bytes, spec.memory_guarantee_bytes
    shown = format_size(limit)
    return shown if limit == guarantee else f"{format_size(guarantee)} to {shown}"


def _kills(item: TaskProposal) -> str:
    counts: dict[int | None, int] = {}
    for need in item.agents:
        for limit, number in need.kills.items():
            counts[limit] = counts.get(limit, 0) + number
    ordered = sorted(counts, key=lambda limit: (limit is None, limit or 0))
    return ", ".join(
        f"{counts[limit]} from outside"
        if limit is None
        else f"{counts[limit]} at {format_size(limit)}"
        for limit in ordered
    )


def _status_words(item: TaskProposal) -> str:
    words = {
        NeedStatus.SHOWN: "shown",
        NeedStatus.PROVISIONAL: "provisional",
        NeedStatus.UNKNOWN: f"unknown: {_why_unknown(item)}",
    }.get(item.status) or _at_least(item)
    if item.kept:
        words += ", less was needed"
    if item.by_reference:
        words += ", for the reference solution"
    if item.cpu_limit_cores is not None:
        words += f"; CPU limit {format_cores(item.cpu_limit_cores)} ({item.cpu_status})"
    return words


def _at_least(item: TaskProposal) -> str:
    above = format_size(item.above)
    return f"more than {above}: too few trials above it, or none without a kill"


def _why_unknown(item: TaskProposal) -> str:
    few = min(item.agents, key=lambda need: need.n_judged)
    if few.n_trials == 0:
        return f'agent "{one_line(few.agent, 40)}" never ran it'
    if few.n_judged == 0:
        return "no trial whose kills could be counted"
    if any(limit is None for need in item.agents for limit in need.kills):
        return "trials were killed from outside, or by the host's memory"
    if all(need.peak is None for need in item.agents):
        return "no peak could be read"
    return f"{plural(few.n_judged, 'trial')} of an agent are too few"


def _agent_table(calibration: Calibration) -> list[Line]:
    columns = [
        Column("task"),
        Column("agent"),
        Column("trials", ">"),
        Column("peak", ">"),
        Column("working set", ">"),
        Column("guarantee", ">"),
        Column("kill threshold", ">"),
        Column("kills, at most", ">"),
        Column("from"),
    ]
    rows = [
        [one_line(task.task, 60), one_line(need.agent, 40), *_agent_cells(need)]
        for task in calibration.tasks
        for need in task.agents
    ]
    return table_lines(columns, rows)


def _agent_cells(item: AgentNeed) -> Iterator[str]:
    yield str(item.n_judged)
    for size in (item.peak, item.working_set, item.guarantee):
        yield "-" if size is None else format_size(size)
    need = item.need
    if need.threshold is None or need.evidence is None:
        yield from ("-", "-", str(need.status).replace("_", " "))
        return
    how = "peaks" if need.evidence.is_measured else "trials that lived"
    yield from (
        format_size(int(need.threshold)),
        percent(need.evidence.upper),
        f"{need.evidence.n} {how}",
    )


def _summary_lines(item: AgentSummary, calibration: Calibration) -> Iterator[Line]:
    counts = ", ".join(
        f"{number} {str(status).replace('_', ' ')}"
        for status, number in item.statuses.items()
        if number
    )
    name = one_line(item.agent, 60)
    yield Line(f'agent "{name}": {plural(item.n_trials, "trial")}, tasks {counts}')
    if item.expected is None:
        yield Line("infra error rate at these values: unknown", "warn")
        return
    yield Line(_expected_words(item.expected, calibration), "bold")


def _expected_words(expected: ExpectedRate, calibration: Calibration) -> str:
    low, high = expected.interval
    tasks = len(calibration.tasks)
    most, where = "at most ", ""
    if expected.n_tasks < tasks:  # those that are left out are the hungry ones
        most, where = "", f" in {expected.n_tasks} of {tasks} tasks (the upper end counts)"
    return (
        f"infra errors expected at these values{where}: {most}{percent(expected.mean)} "
        f"({percent(calibration.settings.confidence).removesuffix('.0%')}% interval "
        f"{100 * low:.1f} to {100 * high:.1f}), {percent(expected.kills)} kills and "
        f"{percent(expected.other)} of other causes"
    )


def _notes(calibration: Calibration) -> Iterator[Line]:
    rate = percent(calibration.settings.kill_rate)
    statuses = {task.status for task in calibration.tasks}
    if NeedStatus.PROVISIONAL in statuses:
        yield Line(
            f"provisional: no measured trial needed more, but more than {rate} of kills is not "
            "excluded; more samples settle it (fewer sets, more samples of uncapped)"
        )
    if calibration.references:
        names = ", ".join(calibration.references)
        yield Line(f"{names}: only raises what an agent needs; it is not an agent")


def calibration_json(report: CalibrationReport) -> dict[str, Any]:
    """Return builtins only: bytes, cores and proportions; None is unknown."""
    calibration = report.calibration
    return {
        "schema_version": CALIBRATION_SCHEMA_VERSION,
        "kill_rate": calibration.settings.kill_rate,
        "confidence": calibration.settings.confidence,
        "one_agent_only": len(calibration.agents) == 1,
        "references": list(calibration.references),
        "tasks": [_task_json(item, report.tasks[item.task]) for item in calibration.tasks],
        "agents": [
            {
                "agent": item.agent,
                "n_trials": item.n_trials,
                "statuses": {str(status): number for status, number in item.statuses.items()},
                "expected_infra_error": _expected_json(item.expected),
            }
            for item in calibration.agents
        ],
    }


def _task_json(item: TaskProposal, task: CalibratedTask) -> dict[str, Any]:
    return {
        "task": item.task,
        "status": str(item.status),
        "declared_guarantee_bytes": task.spec.memory_guarantee_bytes,
        "declared_limit_bytes": task.spec.memory_limit_bytes,
        "memory_guarantee_bytes": item.guarantee,
        "memory_limit_bytes": item.limit,
        "more_than_bytes": item.above,
        "kill_rate_upper": item.upper,
        "less_was_needed": item.kept,
        "raised_for_reference": item.by_reference,
        "cpu_status": str(item.cpu_status),
        "cpu_limit_cores": item.cpu_limit_cores,
        "agents": [
            {
                "agent": need.agent,
                "n_trials": need.n_trials,
                "n_judged": need.n_judged,
                "largest_peak_bytes": need.peak,
                "largest_working_set_bytes": need.working_set,
                "killed": [
                    {"limit_bytes": limit, "trials": number} for limit, number in need.kills.items()
                ],
                "memory_guarantee_bytes": need.guarantee,
                **_need_json(need.need),
            }
            for need in item.agents
        ],
    }


def _need_json(need: Need) -> dict[str, Any]:
    evidence = need.evidence
    return {
        "status": str(need.status),
        "memory_limit_bytes": None if need.threshold is None else int(need.threshold),
        "more_than_bytes": None if need.above is None else int(need.above),
        "evidence": None
        if evidence is None
        else {
            "n": evidence.n,
            "exceeding": evidence.exceeding,
            "upper": evidence.upper,
            "expected": evidence.expected,
            "kind": "peaks" if evidence.is_measured else "lived",
        },
    }


def _expected_json(expected: ExpectedRate | None) -> dict[str, Any] | None:
    if expected is None:
        return None
    return {
        "n_tasks": expected.n_tasks,
        "mean": expected.mean,
        "kills": expected.kills,
        "other": expected.other,
        "interval": list(expected.interval),
    }
