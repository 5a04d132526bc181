"""The study as the process that the user started keeps it: one writer, every record as it comes.

A record arrives on the report of the trial's call (or of its setup, when the sandbox could not be
opened) and is written when the trial's last report is there. A trial whose worker died gets a
record that says so.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_infranoise.design import AllocationTable, trial_seed
from pytest_infranoise.errors import InfranoiseError
from pytest_infranoise.model.outcome import Cause, Outcome
from pytest_infranoise.model.trial import TrialRecord
from pytest_infranoise.model.usage import UsageTotals
from pytest_infranoise.plugin.resume import given_options, resumption_of
from pytest_infranoise.plugin.runtime import Runtime
from pytest_infranoise.plugin.suite import announce, suite_facts
from pytest_infranoise.plugin.surroundings import ini_facts, plugin_versions
from pytest_infranoise.study.accounts import Trial, trial_of_record
from pytest_infranoise.study.journal import JournalError
from pytest_infranoise.study.manifest import StudyFacts, capture_manifest
from pytest_infranoise.study.writer import StudyWriter, create_study
from pytest_infranoise.trial.phases import utc_now

if TYPE_CHECKING:
    from pytest_infranoise.statistics.sequential import Look

ATTRIBUTE = "infranoise"
"""The attribute of a report that carries its trial's record, as plain builtins."""

ERROR_ATTRIBUTE = "infranoise_error"
"""True on a report of a marked test that raised something else than a failed assertion."""

EITHER_ATTRIBUTE = "infranoise_either"
"""Beside a marked test's record: the one if pytest counts the test as failed, and if as passed."""

VERDICT_ATTRIBUTE = "infranoise_verdict"
"""True on a failed report of a marked test that is a trial's outcome, not an error of the suite."""

UNNEEDED_ATTRIBUTE = "infranoise_unneeded"
"""True on the report of a trial that did not run because the study was decided before."""

UNRUN_ATTRIBUTE = "infranoise_unrun"
"""True on the report of a trial that did not run because the run had come to a halt by itself."""

ATTEMPT_ATTRIBUTE = "infranoise_attempt"
"""True on the report of an attempt that is followed by another one of the same trial."""

WAIT_ATTRIBUTE = "infranoise_wait"
"""On a report that carries no result, but what its process waits for: a kind, and a sentence."""


class StudyRecorder:
    """Collects the records of a run and writes the study.

    `planned` is how many trials were selected. `records` are plain dicts in order of arrival;
    `earlier` are those of the sessions before, in a study that goes on.
    `other_failures` counts failed reports that are not a trial's outcome, `lost` the records that
    could not be written into the study, `left_out` the trials that their own tests skip, which are
    none of those planned, `unneeded` those that a decided study does not need, `unrun` the trials
    that did not run because of a halt. `is_unfinished` says that the manifest's end could not be
    written, `is_owner` that this process has held the study's lock.
    `journal_problem` is why the study's disk first refused a record, None if it never did.
    `usage` is what the agents of this session said that they have used, `excused` the trials that
    did not pass and that pytest does not count as failed: expected failures and skips.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.planned: int | None = None
        self._unselected = 0
        self.resumption = resumption_of(runtime.config)
        self.records: list[dict[str, Any]] = []
        self.earlier: list[dict[str, Any]] = []
        self.other_failures = 0
        self.problems: list[str] = []
        self.lost = 0
        self.left_out = 0
        self.unneeded = 0
        self.is_unfinished = False
        self.is_owner = self.resumption is None
        self.unrun = 0
        self.usage = UsageTotals()
        self.journal_problem: str | None = None
        self._selected = 0
        self._kept: set[tuple[Any, ...]] = set()
        self._is_finished = False
        self._pending: dict[str, pytest.TestReport] = {}
        self._failed: set[str] = set()
        self.excused: set[Trial] = set()
        self._writer: StudyWriter | None = None

    @property
    def directory(self) -> Path | None:
        """The study's folder, None while nothing was written."""
        return None if self._writer is None else self._writer.directory

    @property
    def shown_directory(self) -> str | None:
        """The study's folder as seen from where pytest was started."""
        directory, base = self.directory, self.runtime.config.invocation_params.dir
        if directory is None:
            return None
        return str(directory.relative_to(base) if directory.is_relative_to(base) else directory)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest, captured when it is first needed: at the first record."""
        now = capture_manifest(study_facts(self.runtime), self.runtime.redactor)
        return now if self.resumption is None else self.resumption.manifest(now)

    @property
    def last_manifest(self) -> Mapping[str, Any]:
        """The manifest as it was last written: with the study's end once that has come."""
        return self.manifest if self._writer is None else self._writer.manifest

    @property
    def all_records(self) -> list[dict[str, Any]]:
        """The records of every session."""
        return [*self.earlier, *self.records]

    def check_directory(self) -> None:
        """Refuse a study folder that already holds records, before anything runs.

        Raises:
            UsageError: the folder is in use.
        """
        if self.resumption is not None:
            return
        create_study(
            {"study": self.runtime.handover.study},
            root=self.runtime.config.rootpath,
            directory=self.runtime.settings.study_directory,
        )

    def start(self) -> None:
        """Make the study's folder before the first trial, so that it is known to be writable.

        Raises:
            UsageError: it cannot be written, or is a study that cannot go on as things are.
        """
        writer = self._require_writer()
        if self.resumption is not None:
            self.earlier = self.resumption.records()
            self.runtime.schedule.go_on(self.resumption.progress(), self.manifest["extended_from"])
            if writer.torn is not None:
                self.problems.append(f"a half-written line was moved to {writer.torn}")

    def plan(self, trials: int, unselected: int = 0) -> None:
        """Note how many trials were selected, so that a running study can say what is left.

        `unselected` are those of the design that were not, and are not on record.
        """
        finished = self.runtime.schedule.finished
        self._selected = trials
        self.planned, self._unselected = trials + finished, unselected
        if self._writer is not None:
            self._note_plan()

    @property
    def remaining(self) -> int:
        """How many of the selected trials are still to run: nothing else says what became of them.

        None are in a session that only shows its plan.
        """
        if self.runtime.settings.dry_run:
            return 0
        ended = {trial_of_record(record) for record in self.records}
        return max(0, self._selected - self.left_out - self.unneeded - len(ended))

    @property
    def missed(self) -> int:
        """How many trials of this session were not measured because the engine was away."""
        last = {trial_of_record(record): record["cause"] for record in self.records}
        return list(last.values()).count(Cause.ENGINE_AWAY)

    def _note_plan(self) -> None:
        self._note(planned_trials=self.planned, unselected_trials=self._unselected)

    def decide(self, look: "Look") -> None:
        """Note the planned look at which every parameter set was decided."""
        self._note(decided_at_look=look.number)

    def _note(self, **facts: Any) -> None:
        """Add facts to the manifest."""
        self.manifest.update(facts)
        self._attempt(lambda: self._require_writer().note(**facts))

    def take(self, report: pytest.TestReport) -> None:
        """Note one report; write its trial's record if this was the last of it."""
        when: str = report.when  # xdist invents "???" for the item of a worker that died
        if when == "???":
            self._worker_died(report)
            return
        if hasattr(report, WAIT_ATTRIBUTE):
            return
        record = getattr(report, ATTRIBUTE, None)
        if hasattr(report, ATTEMPT_ATTRIBUTE):
            assert record is not None
            self._forget(report.nodeid)
            self._keep(record)
            return
        self.unrun += hasattr(report, UNRUN_ATTRIBUTE)
        self.unneeded += hasattr(report, UNNEEDED_ATTRIBUTE)
        if record is not None:
            self._pending[report.nodeid] = report
        self.left_out += record is None and self._is_left_out(report)
        if report.failed:
            self._failed.add(report.nodeid)
            self.other_failures += not _is_outcome(report)
        if when == "teardown":
            self._write_pending(report.nodeid)

    def _is_left_out(self, report: pytest.TestReport) -> bool:
        """Whether a trial's own test says that it is not to run, as opposed to this session."""
        if not report.skipped or self.runtime.flags.should_stop():
            return False
        if any(hasattr(report, name) for name in (UNNEEDED_ATTRIBUTE, UNRUN_ATTRIBUTE)):
            return False
        return trial_of(self.runtime, report.nodeid) is not None

    def flush(self) -> None:
        """Write the records whose teardown was never reported."""
        for nodeid in list(self._pending):
            self._write_pending(nodeid)

    def finish(self) -> None:
        """Write what is left and the end of the manifest; problems are noted, not raised."""
        self.flush()
        if self._writer is None or self._is_finished:
            return
        self._is_finished = True
        if self.all_records or self.runtime.settings.shard is not None:
            if self.planned is not None and self.left_out:
                self._note(planned_trials=self.planned - self.left_out)
            usage = UsageTotals.of(self.all_records).to_json()
            self.is_unfinished = not self._attempt(
                lambda: self._require_writer().finish(usage=usage)
            )
            if self.is_unfinished:
                self._rescue(self._writer)
        else:
            self._writer.discard()
            self._writer = None

    def _rescue(self, writer: StudyWriter) -> None:
        """Put records that the study's disk has not taken somewhere else, and say so."""
        self.lost, words = writer.rescue(self.records)
        if self.lost:
            self.problems = [item for item in self.problems if item != self.journal_problem]
            self.problems.append(words)

    def _write_pending(self, nodeid: str) -> None:
        report, has_failed = self._pending.get(nodeid), nodeid in self._failed
        self._forget(nodeid)
        if report is None:
            return
        record: dict[str, Any] = getattr(report, ATTRIBUTE)
        if (either := getattr(report, EITHER_ATTRIBUTE, None)) is not None:
            record = either[report.passed and not has_failed]  # hooks may have rewritten it
        if report.skipped:
            self.excused.add(trial_of_record(record))
        self._keep(record)

    def _forget(self, nodeid: str) -> None:
        """Begin anew with an item: its next report is of another attempt, or there is none."""
        self._pending.pop(nodeid, None)
        self._failed.discard(nodeid)

    def _keep(self, record: dict[str, Any]) -> None:
        """Write a record, unless it was delivered before its item had ended."""
        key = (*trial_of_record(record), record["attempt"])
        if key in self._kept:
            return
        self._kept.add(key)
        self.records.append(record)
        self.usage.take(record.get("usage"))
        self._attempt(lambda: self._require_writer().append(record))
        self._note_problem(announce(self.runtime.config, record))

    def _next_attempt(self, trial: Trial) -> int:
        """Return which attempt of a trial is not on record yet."""
        attempt = self.runtime.schedule.attempt_of(trial) or 1
        while (*trial, attempt) in self._kept:
            attempt += 1
        return attempt

    def _attempt(self, action: Any) -> bool:
        """A study that cannot be written must not take the session along; return whether it was."""
        try:
            action()
            return True
        except JournalError as error:
            if self.journal_problem is None:  # once is enough: each later record says the same
                self.journal_problem = str(error)
                self.problems.append(self.journal_problem)
        except InfranoiseError as error:
            self._note_problem(str(error))
        return False

    def _note_problem(self, problem: str | None) -> None:
        if problem is not None and problem not in self.problems:
            self.problems.append(problem)

    def _require_writer(self) -> StudyWriter:
        if self._writer is None:
            self._writer = self._open_writer()
            if self.planned is not None or self.resumption is None:
                self._note_plan()
        return self._writer

    def _open_writer(self) -> StudyWriter:
        if self.resumption is not None:
            writer = self.resumption.open(self.manifest, self.runtime.redactor)
            self.is_owner = True
            return writer
        writer = create_study(
            self.manifest,
            root=self.runtime.config.rootpath,
            directory=self.runtime.settings.study_directory,
            redactor=self.runtime.redactor,
        )
        self._writer = writer  # known even where it cannot start
        writer.start()
        return writer

    def _worker_died(self, report: pytest.TestReport) -> None:
        """Keep the record that the worker still delivered, or record that it died."""
        if report.nodeid not in self._pending:
            record = lost_trial(self.runtime, report, self._next_attempt)
            if record is None:
                self.other_failures += 1
                return
            setattr(report, ATTRIBUTE, record.to_json())
            self._pending[report.nodeid] = report
        self._write_pending(report.nodeid)


def _is_outcome(report: pytest.TestReport) -> bool:
    """Whether a failed report is a trial's outcome, and no error besides."""
    has_verdict = hasattr(report, ATTRIBUTE) or hasattr(report, VERDICT_ATTRIBUTE)
    return has_verdict and not hasattr(report, ERROR_ATTRIBUTE)


def study_facts(runtime: Runtime) -> StudyFacts:
    """Return what the manifest says of the run."""
    settings, config = runtime.settings, runtime.config
    return StudyFacts(
        study=runtime.handover.study,
        command_line=["pytest", *map(str, config.invocation_params.args)],
        seed=runtime.handover.seed,
        order=settings.order,
        samples=settings.samples,
        parameter_sets=settings.sets,
        control=settings.control,
        ceiling=settings.ceiling,
        planned_looks=runtime.looks,
        shard=None if settings.shard is None else asdict(settings.shard),
        disclosed=settings.disclosed,
        options=given_options(config),
        tasks=runtime.studied_tasks,
        allocations=AllocationTable(
            {**runtime.table.allocations, **runtime.known_allocations}, runtime.table.equal_sets
        ),
        engine=runtime.backend.info,
        agent=runtime.agent_facts,
        budget=runtime.budget,
        images=runtime.images,
        admit=settings.admit,
        leftovers=settings.leftovers,
        image_build=settings.image_build,
        pass_threshold=settings.pass_threshold,
        screen=runtime.screened,
        excluded=sorted(runtime.excluded.values()),
        suite=suite_facts(config),
        enforcement=settings.enforcement,
        is_clamped=settings.clamp,
        workers=int(config.getoption("numprocesses", None) or 0),
        passed_variables=settings.agent_env,
        notes=runtime.warnings,
        ini=ini_facts(config),
        pytest_plugins=plugin_versions(config),
        study_folder=settings.study_directory or config.rootpath,
    )


def lost_trial(
    runtime: Runtime, report: pytest.TestReport, next_attempt: Callable[[Trial], int]
) -> TrialRecord | None:
    """Return the record of a trial whose worker died in it; None if the item was no trial."""
    planned = trial_of(runtime, report.nodeid)
    if planned is None:
        return None
    name, parameter_set, sample = planned
    node = getattr(report, "node", None)
    block, position = runtime.schedule.place_of(planned)
    return TrialRecord(
        study=runtime.handover.study,
        task=name,
        parameter_set=parameter_set,
        sample=sample,
        attempt=next_attempt(planned),
        block=block,
        position=position,
        seed=trial_seed(runtime.handover.seed, name, sample),
        outcome=Outcome.INFRA_ERROR,
        cause=Cause.WORKER_LOST,
        detail="the worker process died during this trial",
        started_at=utc_now(),
        worker="unknown" if node is None else str(node.gateway.id),
        **_limits(runtime, name, parameter_set),
    )


_LIMITS = (
    "memory_guarantee_bytes",
    "memory_limit_bytes",
    "cpu_guarantee_cores",
    "cpu_limit_cores",
)


def _limits(runtime: Runtime, task: str, parameter_set: str) -> dict[str, Any]:
    """Return the limits of a trial whose task this process knows."""
    own = runtime.table.allocations.get(task)
    if own is None:
        return {}
    effective = own[parameter_set].effective
    return {name: getattr(effective, name) for name in _LIMITS}


def trial_of(runtime: Runtime, nodeid: str) -> tuple[str, str, int] | None:
    """Return task, parameter set and sample of an item id, or None if it is no trial's."""
    if (known := runtime.known_trials.get(nodeid)) is not None:
        return known
    place, _, name = nodeid.rpartition("::")
    test, bracket, inside = name.partition("[")
    for parameter_set in runtime.sets:
        own = rf"(?P<before>.*-)?{re.escape(parameter_set)}-s(?P<sample>\d+)(?P<after>-.*)?"
        match = re.fullmatch(own, inside.removesuffix("]") if bracket else name)
        if match is None:
            continue
        sample = int(match["sample"])
        if not bracket:
            file, inside_file, instance = place.partition("::")
            # Outside of rootdir an id begins with `..`; folders are known by their plain path.
            path = Path(os.path.normpath(runtime.config.rootpath / file))
            task = runtime.task_names.get(path / instance if inside_file else path.parent)
            return None if task is None else (task, parameter_set, sample)
        others = ((match["before"] or "") + (match["after"] or "")[1:]).strip("-")
        return (f"{place}::{test}" + (f"[{others}]" if others else ""), parameter_set, sample)
    return None
