"""What the terminal shows of a study: header lines, and the summary at the end."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_infranoise.plugin.hints import agent_lines, deadline_lines
from pytest_infranoise.plugin.recorder import StudyRecorder
from pytest_infranoise.plugin.runtime import Runtime
from pytest_infranoise.report.model import Line, Style, one_line
from pytest_infranoise.study.accounts import Trial, measured, trial_of_record
from pytest_infranoise.units import format_size

if TYPE_CHECKING:
    from pytest_infranoise.analysis.gates import GateResult
    from pytest_infranoise.report.view import StudyView

TRIAL_LINES = 40
LONG_WAIT_SECONDS = 10.0

_MARKUP: dict[Style, dict[str, bool]] = {
    "plain": {},
    "bold": {"bold": True},
    "good": {"green": True},
    "bad": {"red": True},
    "warn": {"yellow": True},
    "dim": {"light": True},
}


def header_lines(runtime: Runtime) -> list[str]:
    """Return what pytest's header says of the study."""
    settings = runtime.settings
    sets = ", ".join(item.id for item in settings.sets)
    lines = [
        f"infranoise: study {runtime.handover.study}, seed {runtime.handover.seed}, "
        f"sets {sets}, {_samples_words(runtime)}{_shard_words(runtime)}, agent "
        f"{one_line(runtime.agent_facts['name'], 60)}"
    ]
    if runtime.has_backend:
        info, budget = runtime.backend.info, runtime.budget
        cgroup = "no cgroup" if info.cgroup_version is None else f"cgroup v{info.cgroup_version}"
        lines.append(
            f"infranoise: {info.engine}, {cgroup}, {runtime.enforcement_words}; budget "
            f"{format_size(budget.memory_bytes)}, {budget.cpu_cores:g} cores"
        )
        lines += [f"infranoise: {note}" for note in (*info.notes, *clamp_notes(runtime))]
        if not (runtime.agent.is_reference or settings.dry_run):  # a dry run says it at its end
            lines += [f"infranoise: {line}" for line in design_words(runtime)]
    return lines + [f"infranoise: {warning}" for warning in runtime.warnings]


def _shard_words(runtime: Runtime) -> str:
    shard = runtime.settings.shard
    return "" if shard is None else f", shard {shard}"


def _samples_words(runtime: Runtime) -> str:
    if not runtime.looks:
        return f"{runtime.settings.samples} sample(s)"
    looks = ", ".join(str(look.samples) for look in runtime.looks)
    return f"up to {runtime.settings.samples} sample(s) with looks after {looks}"


def clamp_notes(runtime: Runtime) -> list[str]:
    """Say in how many tasks the engine's own bounds changed a parameter set's limits."""
    clamped = Counter(
        parameter_set
        for by_set in runtime.table.allocations.values()
        for parameter_set, given in by_set.items()
        if given.effective.notes
    )
    return [
        f"{name}: the engine's own bounds change the limits of {number} task(s); "
        "--infra-dry-run lists them"
        for name, number in clamped.items()
    ]


def design_words(runtime: Runtime) -> list[str]:
    """Say in one line what this design can detect, before a single trial runs."""
    settings = runtime.settings
    sets, tasks = len(settings.sets) - (settings.control is not None), len(runtime.studied_tasks)
    if sets < 2 or tasks < 2:
        return []
    from pytest_infranoise.analysis.planning import Design
    from pytest_infranoise.analysis.words_plan import design_line

    return [design_line(Design(n_tasks=tasks, n_sets=sets), settings.samples)]


def print_summary(
    terminal: Any,
    recorder: StudyRecorder,
    exit_status: int | None,
    gates: Sequence["GateResult"] = (),
) -> None:
    """Print the study's summary; a failure in it is a line, never a lost session."""
    config = recorder.runtime.config
    if not recorder.all_records:
        if recorder.planned and not recorder.runtime.settings.dry_run:
            terminal.section("infrastructure noise")
            terminal.write_line("no trial ended, so there is nothing to compare")
            for text in halt_lines(recorder):
                terminal.write_line(text, yellow=True)
            _print_gates(terminal, gates)
            _print_problems(terminal, recorder.problems)
            if exit_status == pytest.ExitCode.INTERRUPTED:
                terminal.write_line(exit_words(recorder, exit_status))
        return
    terminal.section("infrastructure noise")
    verbosity = config.option.verbose
    try:
        lines = _summary(recorder, verbosity, gates)
    except Exception as error:  # noqa: BLE001 - the records are safe; say so instead of raising
        lines = [
            Line(f"the summary failed: {type(error).__name__}: {error}", "bad"),
            Line(f"the records are in {recorder.directory}", "bold"),
        ]
    for line in lines:
        terminal.write_line(line.text, **_MARKUP[line.style])
    for text in (
        *left_out_lines(recorder.runtime), *cost_lines(recorder), *halt_lines(recorder),
        *wait_lines(recorder.records),
    ):  # fmt: skip
        terminal.write_line(text, yellow=True)
    agent = one_line(recorder.runtime.agent_facts["name"], 60)
    for text in (*agent_lines(recorder.records, agent), *deadline_lines(recorder.records)):
        terminal.write_line(text, yellow=True)
    _print_gates(terminal, gates)
    _print_problems(terminal, recorder.problems)
    if verbosity >= 0 or recorder.remaining or recorder.is_unfinished:
        terminal.write_line(exit_words(recorder, exit_status, gates))


def _print_gates(terminal: Any, gates: Sequence["GateResult"]) -> None:
    if gates:
        from pytest_infranoise.report.gates import gate_lines

        for line in gate_lines(gates):
            terminal.write_line(line.text, **_MARKUP[line.style])


def _gate_words(gates: Sequence["GateResult"]) -> str | None:
    from pytest_infranoise.plugin.gates import count_words

    return count_words(gates)


def cost_lines(recorder: StudyRecorder) -> list[str]:
    """Say what became of `--infra-max-cost`: it can stop nothing that no trial reports."""
    limit, usage = recorder.runtime.settings.attempts.max_cost_usd, recorder.usage
    if limit is None or not usage.attempts:
        return []
    unknown = usage.attempts - usage.with_cost
    if not usage.with_cost:
        return [
            f"--infra-max-cost={limit:g}: no trial reported its cost, so this could stop nothing; "
            "the agent must write cost_usd to /logs/agent/usage.json"
        ]
    lines = []
    if unknown:
        lines.append(f"the cost of {unknown} of {usage.attempts} attempt(s) is unknown")
    return lines


def wait_lines(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say how long trials waited for their guarantee, where one waited long."""
    waits = [record.get("admission_wait_seconds") or 0.0 for record in records]
    if max(waits, default=0.0) < LONG_WAIT_SECONDS:
        return []
    number = sum(seconds >= 1 for seconds in waits)
    return [
        f"{number} trial(s) waited for admission, {sum(waits):.0f} s in all, the longest "
        f"{max(waits):.0f} s"
    ]


def halt_lines(recorder: StudyRecorder) -> list[str]:
    """Say how many trials a run left that came to a halt by itself."""
    left, reason = recorder.unrun + recorder.missed, recorder.runtime.flags.halted()
    if reason is None or not left:
        return []
    return [f"{left} trial(s) did not run: {one_line(reason, 600)}{_resume_words(recorder)}"]


def left_out_lines(runtime: Runtime) -> list[str]:
    """Name the tasks that the user or the oracle screen left out of the study, and why."""
    lines = []
    if names := sorted(runtime.excluded.values()):
        lines.append(
            f"--infra-exclude: {len(names)} of {len(names) + len(runtime.tasks)} task(s) left out "
            f"of the study: {', '.join(names)}"
        )
    if not runtime.left_out:
        return lines
    known, out = len(runtime.screened), len(runtime.left_out)
    return [
        *lines,
        f"oracle screen: {out} of {known} task(s) left out of the study",
        *(f"left out: {name}: {reason}" for name, reason in runtime.left_out.items()),
    ]


def session_view(recorder: StudyRecorder) -> "StudyView":
    """Return the study of a session as its summary shows it."""
    from pytest_infranoise.report.view import view_records
    from pytest_infranoise.study.looks import count_looks

    return view_records(
        recorder.all_records,
        recorder.manifest,
        planned=recorder.manifest.get("planned_trials"),
        directory=recorder.shown_directory,
        unplanned_looks=0 if recorder.directory is None else count_looks(recorder.directory),
        accept_engine=recorder.runtime.settings.accept_engine,
    )


def _summary(
    recorder: StudyRecorder, verbosity: int, gates: Sequence["GateResult"]
) -> Sequence[Line]:
    from pytest_infranoise.plugin.reports import report_lines
    from pytest_infranoise.report.terminal import summary_lines, trial_lines

    view = session_view(recorder)
    lines: list[Line] = []
    if verbosity >= 0:
        lines += trial_lines(recorder.records, None if verbosity > 0 else TRIAL_LINES)
    lines += summary_lines(view, verbosity=verbosity, width=_width(recorder))
    return [*lines, *report_lines(recorder, view, gates)]


def _width(recorder: StudyRecorder) -> int | None:
    """Return how wide the terminal is, None where nobody watches and lines may be long."""
    terminal: Any = recorder.runtime.config.pluginmanager.getplugin("terminalreporter")
    return terminal._tw.fullwidth if terminal is not None and terminal.isatty else None


def _print_problems(terminal: Any, problems: Sequence[str]) -> None:
    for problem in problems:
        terminal.write_line(f"infranoise: {problem}", red=True, bold=True)


def _stopped_words(recorder: StudyRecorder) -> str:
    left = recorder.remaining
    if not left:
        return "the session was stopped; every trial had run"
    return (
        f"the session was stopped before every trial ran: {left} trial(s) left"
        f"{_resume_words(recorder)}"
    )


def _resume_words(recorder: StudyRecorder) -> str:
    """Say what to type to go on, where there is a study to go on with."""
    folder = recorder.shown_directory
    return "" if folder is None else f"; --infra-study={shlex.quote(folder)} --infra-resume goes on"


def exit_words(
    recorder: StudyRecorder, exit_status: int | None, gates: Sequence["GateResult"] = ()
) -> str:
    """Explain the exit code in words; say what is left to run, and name the other choice."""
    words = _exit_words(recorder, exit_status, gates)
    if exit_status == pytest.ExitCode.INTERRUPTED or not recorder.remaining:
        return words
    return f"{words}; {recorder.remaining} trial(s) left{_resume_words(recorder)}"


def _exit_words(
    recorder: StudyRecorder, exit_status: int | None, gates: Sequence["GateResult"]
) -> str:
    if not recorder.records and exit_status == pytest.ExitCode.OK:
        return "exit code 0: every trial was on record already, so nothing was left to run"
    not_passed = _not_passed(recorder)
    if exit_status == pytest.ExitCode.INTERRUPTED:
        if recorder.runtime.flags.halted() is not None:
            return "exit code 2: the run came to a halt before every trial was measured"
        return f"exit code 2: {_stopped_words(recorder)}"
    if recorder.other_failures:
        return (
            f"exit code {exit_status}: {recorder.other_failures} error(s) besides the trials' "
            "outcomes"
        )
    if recorder.lost:
        return f"exit code {exit_status}: {recorder.lost} record(s) are not in the study"
    if recorder.is_unfinished:
        return f"exit code {exit_status}: the end of the study could not be written"
    if gates and (words := _gate_words(gates)) is not None:
        return f"exit code {exit_status}: {words}"
    if recorder.runtime.settings.exit == "study":
        return (
            f"exit code {exit_status}: trials are data ({len(not_passed)} did not pass); "
            "--infra-exit=pytest fails the session when a trial did not pass"
        )
    return f"exit code {exit_status}: {_tally_words(recorder, not_passed)}"


def _tally_words(recorder: StudyRecorder, not_passed: Sequence[Trial]) -> str:
    """Say how many trials did not pass, and whether pytest holds that against them."""
    if not not_passed:
        return "every trial passed"
    last = {trial_of_record(record): record["outcome"] for record in recorder.records}
    excused = [item for item in not_passed if last[item] == "passed" or item in recorder.excused]
    if left := len(not_passed) - len(excused):
        return (
            f"{left} trial(s) did not pass, which pytest counts as failed; --infra-exit=study "
            "treats trials as data"
        )
    return (
        f"{len(excused)} trial(s) did not pass, which pytest does not count as failed: expected, "
        "skipped, or passed when run again"
    )


def _not_passed(recorder: StudyRecorder) -> list[Trial]:
    """Return the trials that did not pass in their first attempt that measured something.

    That attempt is the one that rates count.
    """
    found: dict[Trial, str] = {}
    for record in measured(recorder.records):
        found.setdefault(trial_of_record(record), record["outcome"])
    for record in recorder.records:
        found.setdefault(trial_of_record(record), record["outcome"])
    return [trial for trial, outcome in found.items() if outcome != "passed"]
