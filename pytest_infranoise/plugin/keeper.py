"""The session as the user sees it: checked first, stoppable, recorded, summed up at the end."""

import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_infranoise.errors import InfranoiseError, UsageError
from pytest_infranoise.model.enforcement import PRESETS
from pytest_infranoise.model.resources import joint_sets, parse_multipliers
from pytest_infranoise.plugin.handover import Handover
from pytest_infranoise.plugin.items import TRIAL
from pytest_infranoise.plugin.looks import LookSchedule, decides
from pytest_infranoise.plugin.progress import ProgressLine, WaitLine
from pytest_infranoise.plugin.recorder import WAIT_ATTRIBUTE, StudyRecorder, trial_of
from pytest_infranoise.plugin.repeats import Repeats
from pytest_infranoise.plugin.runtime import Runtime, get_runtime
from pytest_infranoise.plugin.stopping import SignalWatch
from pytest_infranoise.printable import printable
from pytest_infranoise.report.model import one_line

if TYPE_CHECKING:
    from pytest_infranoise.analysis.gates import GateResult
    from pytest_infranoise.statistics.sequential import Look

HALT_CHARACTERS = 600

LATE_LINE = (
    "infranoise: the trials have ended and the summary is being written "
    "(a third signal ends at once without it)"
)
END_SECONDS = 5.0
"""How long sandboxes may take to go when the user wants to leave at once."""
SECOND_SWEEP_SECONDS = 0.3
"""An engine may still be starting a dead worker's sandbox while the first pass looks."""

STOP_LINE = (
    "infranoise: stopping; running trials finish and are recorded "
    "(once more kills them without a record)"
)


class StudyKeeper:
    """Keeps one study in the process that the user started.

    Raises:
        UsageError: an option cannot be used.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.runtime: Runtime = get_runtime(config)
        if self.runtime.settings.reports:
            from pytest_infranoise.report.files import check_files

            check_files(self.runtime.settings.reports, where="--infra-report")
        self.recorder = StudyRecorder(self.runtime)
        self._signals = SignalWatch(
            self.runtime.flags, on_stop=self._on_stop, on_late=self._on_late, on_end=self._on_end
        )
        self._session: pytest.Session | None = None
        self._schedule: LookSchedule | None = None
        self._line: ProgressLine | None = None
        self._exit_status: int | None = None
        self._gates: tuple[GateResult, ...] = ()
        self._repeats = Repeats(self.runtime.settings.attempts.max_in_row)
        self._waits = WaitLine()
        self._has_said_halt = False
        self._swept = False
        self._is_summed_up = False

    # --- before anything runs ---

    def begin(self) -> None:
        """Read and check every task, and prepare the images.

        Raises:
            pytest.UsageError: what cannot be used, one line each.
        """
        if self._config.option.collectonly:
            self._as_usage_error(self._discover)
            return
        self._as_usage_error(self._begin)

    def _begin(self) -> None:
        runtime = self.runtime
        self._signals.install()
        self._discover()
        runtime.passed_environment()
        self._check_preset()
        self.recorder.check_directory()
        if not runtime.tasks:
            self._go_on()
            return
        if runtime.settings.until_decided:
            self._check_looks()
        runtime.resolve()
        if not runtime.settings.dry_run:
            self._read_progress()
            runtime.prepare_images(self._progress)
            self._screen()
            self.recorder.start()
        self._go_on()

    def _discover(self) -> None:
        self.runtime.discover(self._paths())
        _ = self.runtime.agent_facts  # what cannot be used of the agent is said here, not later

    def _screen(self) -> None:
        """Leave out what the tasks' own solutions do not solve, as found when the study began."""
        if not self.runtime.settings.screen_oracle:
            return
        from pytest_infranoise.plugin.screening import screen_tasks

        resumption = self.recorder.resumption
        known = () if resumption is None else resumption.study.manifest.data.get("oracle_screen")
        screen_tasks(self.runtime, self._progress, known or ())

    def _go_on(self) -> None:
        """Take up a study that was stopped or killed: what is on record, and what was left.

        Nobody else writes the study now, so sandboxes of its earlier sessions are nobody's.
        """
        resumption = self.recorder.resumption
        if resumption is None:
            return
        if self.runtime.settings.dry_run:
            self._read_progress()
            return
        if not self.runtime.tasks:
            self.recorder.start()
        self.sweep()
        on_record = self.runtime.schedule.finished
        self.runtime.warnings.append(f"the study goes on: {on_record} trial(s) are on record")
        decided = resumption.study.manifest.data.get("decided_at_look")
        for look in self.runtime.looks:
            if look.number == decided:
                self.runtime.flags.decide(look.samples)

    def _read_progress(self) -> None:
        """Learn what is on record of a study that goes on, without taking it up."""
        if (resumption := self.recorder.resumption) is not None:
            extended_from = resumption.study.manifest.data.get("extended_from", ())
            self.runtime.schedule.go_on(resumption.progress(), extended_from)

    def _check_preset(self) -> None:
        """Warn of a method by name whose multipliers are not those of this run."""
        settings = self.runtime.settings
        preset = settings.enforcement.preset
        if preset is None:
            return
        own = joint_sets(parse_multipliers(PRESETS[preset].multipliers, where=preset))
        ids = [item.id for item in settings.sets if item.id != settings.control]
        if ids != [item.id for item in own]:
            self.runtime.warnings.append(
                f"{preset} means limits at {', '.join(item.id for item in own)}; this run has "
                f"{', '.join(ids)}, so only its way of enforcing them is {preset}'s"
            )

    def _check_looks(self) -> None:
        """Refuse or name what keeps a study from being decided early."""
        runtime = self.runtime
        if runtime.agent.is_reference:
            raise UsageError(
                f"--infra-until-decided: the agent {runtime.agent.name} shows whether tasks fit, "
                "which decides nothing; name another with --infra-agent, or use --infra-samples"
            )
        spread = getattr(self._config.option, "dist", "no")
        if spread not in ("no", "load"):
            runtime.warnings.append(
                f"--dist={spread} starts late samples early, so that fewer trials are saved; "
                "--dist=load keeps to the order"
            )

    def expect_items(self, items: Sequence[pytest.Item], session: pytest.Session) -> None:
        """Note which trials this process will run itself."""
        self._session = session
        trials = {item.nodeid: item.stash[TRIAL] for item in items if TRIAL in item.stash}
        self._expect(len(items), trials)

    def expect_ids(self, ids: Sequence[str]) -> None:
        """Note which trials a worker's collection holds; every worker's is the same."""
        if self.recorder.planned is None:
            trials = {item: trial for item in ids if (trial := trial_of(self.runtime, item))}
            self.runtime.schedule.place(list(trials.values()))
            self._expect(len(trials), trials)

    def learn_order(self, told: str) -> None:
        """Take from a worker what its items' ids do not say: which are trials, and their order."""
        values = json.loads(told)
        self.runtime.known_trials = {
            item: (task, parameter_set, sample)
            for item, (task, parameter_set, sample) in values["trials"].items()
        }
        self.runtime.schedule.ranks = values["ranks"]

    def _expect(self, number: int, trials: Mapping[str, tuple[str, str, int]]) -> None:
        """Note how many trials were selected; from now on signals are ours."""
        self.recorder.plan(number, self.runtime.schedule.unselected(trials.values()))
        self._signals.run()
        self._line = self._progress_line(trials)
        # Nothing is left to skip after the last look: it is the summary.
        if interim := self.runtime.looks[:-1]:
            samples = {item: sample for item, (_, _, sample) in trials.items()}
            self._schedule = LookSchedule(interim, samples)
            if self.recorder.earlier:
                self._take_looks(self._schedule.due())

    def _progress_line(self, trials: Mapping[str, tuple[str, str, int]]) -> ProgressLine:
        terminal: Any = self._config.pluginmanager.getplugin("terminalreporter")
        return ProgressLine(
            trials,
            finished=max(0, (self.recorder.planned or 0) - len(trials)),
            workers=int(self._config.getoption("numprocesses", None) or 1),
            is_watched=terminal is not None and terminal.isatty,
            is_bounded=self.runtime.settings.until_decided,
        )

    def hand_over(self) -> Handover:
        """Return what the workers need to know."""
        return self.runtime.hand_over()

    # --- while it runs ---

    def take(self, report: pytest.TestReport) -> None:
        """Note one report, and look at the study if that is due."""
        known = len(self.recorder.records)
        is_writable = self.recorder.journal_problem is None
        with self._signals.held():
            self.recorder.take(report)
        if is_writable and self.recorder.journal_problem is not None:
            self._progress(f"infranoise: {self.recorder.journal_problem}")
        self._check_halt(self.recorder.records[known:])
        self._say_wait(report)
        if report.when in ("setup", "call"):
            return
        if self._line is not None:
            line = self._line.end(report.nodeid, self.recorder.records[known:])
            if line is not None and not self._signals.was_stopped:
                self._progress(line)
        if self._schedule is not None:
            self._take_looks(self._schedule.end(report.nodeid))

    def _check_halt(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Ask for no further trial once costs or failures of the provider are what they may be."""
        flags = self.runtime.flags
        if flags.halted() is None:
            reasons = [reason for item in records if (reason := self._repeats.take(item))]
            reasons += self._cost_reasons()
            if reasons:
                flags.halt(reasons[0])
        reason = flags.halted()
        if reason is not None and not self._has_said_halt:
            self._has_said_halt = True
            self._progress(
                f"infranoise: {one_line(reason, HALT_CHARACTERS)}; running trials finish, no other "
                "one starts"
            )

    def _cost_reasons(self) -> Iterator[str]:
        limit, cost = self.runtime.settings.attempts.max_cost_usd, self.recorder.usage.cost_usd
        if limit is not None and cost >= limit:
            yield f"trials have reported costs of {cost:.2f} USD, --infra-max-cost is {limit:g}"

    def _say_wait(self, report: pytest.TestReport) -> None:
        """Say what a process waits for, unless that was said just now."""
        kind, text = getattr(report, WAIT_ATTRIBUTE, (None, ""))
        if kind is not None and self._waits.is_due(kind):
            self._progress(f"infranoise: {one_line(text, HALT_CHARACTERS)}")

    def _take_looks(self, looks: Sequence["Look"]) -> None:
        """Take the looks that are due, until one decides."""
        for look in looks:
            if self._schedule is not None:
                self._look(look)

    def _look(self, look: "Look") -> None:
        """Ask for no later samples if this look decides everything; never lose the session."""
        if self.runtime.flags.should_start_none():
            return  # what did not run makes the round incomplete
        recorder = self.recorder
        try:
            is_decided = decides(look, recorder.all_records, recorder.manifest)
        except Exception as error:  # noqa: BLE001 - the study can go on without a look
            recorder.problems.append(f"look {look.number} failed: {type(error).__name__}: {error}")
            return
        if is_decided:
            self._schedule = None
            self.runtime.flags.decide(look.samples)
            recorder.decide(look)
            self._progress(
                f"infranoise: every parameter set is decided after {look.samples} of "
                f"{look.max_samples} samples; later ones are not needed"
            )

    # --- the end ---

    def decide_exit(self, session: pytest.Session) -> None:
        """Set the session's exit code from the exit policy and from what happened."""
        self._signals.close()
        self.recorder.finish()
        status = int(session.exitstatus)
        was_cut = self.runtime.flags.halted() and (self.recorder.unrun or self.recorder.missed)
        if (self._signals.was_stopped or was_cut) and status in (
            pytest.ExitCode.OK,
            pytest.ExitCode.TESTS_FAILED,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        ):
            status = int(pytest.ExitCode.INTERRUPTED)
        if status == pytest.ExitCode.NO_TESTS_COLLECTED and self._has_nothing_left():
            status = int(pytest.ExitCode.OK)
        trials_alone = self.recorder.records and not self.recorder.other_failures
        if self.runtime.settings.exit == "study" and trials_alone:
            status = 0 if status == pytest.ExitCode.TESTS_FAILED else status
        self._gates = self._judge_gates()
        is_damaged = self.recorder.lost or self.recorder.is_unfinished
        if (is_damaged or self._gates_failed) and status == pytest.ExitCode.OK:
            status = int(pytest.ExitCode.TESTS_FAILED)
        if self.recorder.remaining and status == pytest.ExitCode.OK:
            status = int(pytest.ExitCode.INTERRUPTED)
        session.exitstatus = status
        self._exit_status = status

    def _judge_gates(self) -> "tuple[GateResult, ...]":
        if not self.runtime.settings.gates or self._config.option.collectonly:
            return ()
        from pytest_infranoise.plugin.gates import judge_session

        return judge_session(self.recorder)

    @property
    def _gates_failed(self) -> bool:
        """Whether a gate did not pass: also one that could not be decided."""
        if not self._gates:
            return False
        from pytest_infranoise.report.gates import all_passed

        return not all_passed(self._gates)

    def _has_nothing_left(self) -> bool:
        """Whether no trial was selected because none is left: on record, or in other shards."""
        return bool(self.recorder.earlier) or self.runtime.settings.shard is not None

    def sweep(self) -> None:
        """Remove all sandboxes of the study that are left."""
        # A study that somebody else writes has sandboxes of theirs.
        if self.runtime.has_backend and self.recorder.is_owner:
            self._sweep(None)

    def sweep_worker(self, worker: str) -> None:
        """Remove what a dead worker left; what it reserved is free already, since it is gone."""
        owner = self.runtime.flags.owner_of(worker)
        if owner is not None:
            self._sweep(owner)
            time.sleep(SECOND_SWEEP_SECONDS)
            self._sweep(owner)

    def _sweep(self, owner: str | None) -> None:
        try:
            self.runtime.sweep(owner)
        except InfranoiseError as error:
            self.recorder.problems.append(f"sandboxes may be left: {error}")

    def summarise(self, terminal: Any) -> None:
        """Write the end of the study and print the summary."""
        from pytest_infranoise.plugin.summary import print_summary

        print_summary(terminal, self.recorder, self._exit_status, self._gates)
        self._is_summed_up = True

    def end(self) -> None:
        """Give back what this process holds."""
        self._signals.close()
        try:
            self.recorder.finish()
            self.runtime.flags.clear()
            self.runtime.close()
        finally:
            self._signals.restore()

    # --- on the way ---

    def header(self) -> list[str]:
        """Return the lines for pytest's header."""
        from pytest_infranoise.plugin.summary import header_lines

        return header_lines(self.runtime)

    def show_plan(self, session: pytest.Session) -> bool:
        """Print what would run; nothing does."""
        from pytest_infranoise.plugin.dryrun import print_plan

        print_plan(self.runtime, session)
        return True

    def _on_stop(self) -> None:
        self._say_in_signal(STOP_LINE)
        distributed: Any = self._config.pluginmanager.getplugin("dsession")
        if distributed is not None:
            distributed.shouldstop = "stopped by a signal; running trials were finished"
        elif self._session is not None:
            self._session.shouldstop = "stopped by a signal; the running trial was finished"

    def _on_late(self) -> None:
        self._say_in_signal(LATE_LINE)

    def _on_end(self) -> None:
        """Clean up for a few seconds; in a thread, since this one may hold any lock."""
        cleaner = threading.Thread(target=self._leave, daemon=True)
        cleaner.start()
        cleaner.join(END_SECONDS)
        folder = self.recorder.shown_directory
        where = "" if folder is None else f"; what had ended is in {folder}"
        summary = "" if self._is_summed_up else ", without a summary"
        self._say_in_signal(f"infranoise: ended at once{summary}{where}")
        with suppress(OSError, RuntimeError, ValueError):
            sys.stdout.flush()

    def _leave(self) -> None:
        with suppress(Exception):
            self.sweep()
        with suppress(OSError):
            self.runtime.flags.clear()

    def _say_in_signal(self, line: str) -> None:
        """Write a line from a handler: the terminal may be gone, or be written to just now."""
        with suppress(OSError, RuntimeError):
            self._progress(line)

    def _progress(self, line: str) -> None:
        """Write a line past pytest's capture, which may hold a running test's output."""
        line = printable(line)
        terminal: Any = self._config.pluginmanager.getplugin("terminalreporter")
        if terminal is None or self._config.option.verbose < 0:
            return
        capture: Any = self._config.pluginmanager.getplugin("capturemanager")
        with nullcontext() if capture is None else capture.global_and_fixture_disabled():
            terminal.ensure_newline()
            if terminal._tw.width_of_current_line:  # xdist's dots count for no file
                terminal.write_line("")
            terminal.write_line(line)

    def _paths(self) -> Sequence[Path]:
        base = self._config.invocation_params.dir
        return [Path(base / argument.split("::")[0]) for argument in self._config.args]

    def _as_usage_error(self, action: Any) -> None:
        try:
            action()
        except InfranoiseError as error:
            raise pytest.UsageError(*printable(str(error)).splitlines()) from error
