"""The study as the process that the user started keeps it: one writer, every record as it comes.

A record arrives on the report of the trial's call (or of its setup, when the sandbox could not be
opened) and is written when the trial's last report is there. A trial whose worker died gets a
record that says so.
"""

import re
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_infranoise.design import AllocationTable, trial_seed
from pytest_infranoise.errors import InfranoiseError
from pytest_infranoise.model.outcome import Cause, Outcome
from pytest_infranoise.model.trial import TrialRecord
from pytest_infranoise.phases import utc_now
from pytest_infranoise.plugin.runtime import Runtime
from pytest_infranoise.study.manifest import StudyFacts, capture_manifest
from pytest_infranoise.study.redact import Redactor
from pytest_infranoise.study.writer import StudyWriter, create_study

if TYPE_CHECKING:
    from pytest_infranoise.statistics.sequential import Look

ATTRIBUTE = "infranoise"
"""The attribute of a report that carries its trial's record, as plain builtins."""

UNNEEDED_ATTRIBUTE = "infranoise_unneeded"
"""True on the report of a trial that did not run because the study was decided before."""


class StudyRecorder:
    """Collects the records of a run and writes the study.

    `planned` is how many trials were selected. `records` are plain dicts in order of arrival.
    `other_failures` counts failed reports that are not a trial's outcome.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.planned: int | None = None
        self.records: list[dict[str, Any]] = []
        self.other_failures = 0
        self.problems: list[str] = []
        self._pending: dict[str, dict[str, Any]] = {}
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
        return capture_manifest(study_facts(self.runtime), self._redactor)

    @cached_property
    def _redactor(self) -> Redactor:
        return Redactor(self.runtime.passed_environment())

    def check_directory(self) -> None:
        """Refuse a study folder that already holds records, before anything runs.

        Raises:
            UsageError: the folder is in use.
        """
        create_study(
            {"study": self.runtime.handover.study},
            root=self.runtime.config.rootpath,
            directory=self.runtime.settings.study_directory,
        )

    def start(self) -> None:
        """Make the study's folder before the first trial, so that it is known to be writable.

        Raises:
            UsageError: it cannot be written.
        """
        self._require_writer()

    def plan(self, trials: int) -> None:
        """Note how many trials were selected, so that a running study can say what is left."""
        self.planned = trials
        if self._writer is not None:
            self._note(planned_trials=trials)

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
        record = getattr(report, ATTRIBUTE, None)
        if record is not None:
            self._pending[report.nodeid] = record
        elif report.failed:
            self.other_failures += 1
        if when == "teardown":
            self._write_pending(report.nodeid)

    def flush(self) -> None:
        """Write the records whose teardown was never reported."""
        for nodeid in list(self._pending):
            self._write_pending(nodeid)

    def finish(self) -> None:
        """Write what is left and the end of the manifest; problems are noted, not raised."""
        self.flush()
        if self._writer is None:
            return
        if self.records:
            self._attempt(self._writer.finish)
        else:
            self._writer.discard()
            self._writer = None

    def _write_pending(self, nodeid: str) -> None:
        record = self._pending.pop(nodeid, None)
        if record is not None:
            self.records.append(record)
            self._attempt(lambda: self._require_writer().append(record))

    def _attempt(self, action: Any) -> None:
        """A study that cannot be written must not take the session along."""
        try:
            action()
        except InfranoiseError as error:
            if str(error) not in self.problems:
                self.problems.append(str(error))

    def _require_writer(self) -> StudyWriter:
        if self._writer is None:
            self._writer = create_study(
                self.manifest,
                root=self.runtime.config.rootpath,
                directory=self.runtime.settings.study_directory,
                redactor=self._redactor,
            )
            self._writer.start()
            self._writer.note(planned_trials=self.planned)
        return self._writer

    def _worker_died(self, report: pytest.TestReport) -> None:
        """Keep the record that the worker still delivered, or record that it died."""
        if report.nodeid not in self._pending:
            record = lost_trial(self.runtime, report)
            if record is None:
                self.other_failures += 1
                return
            self._pending[report.nodeid] = record.to_json()
            setattr(report, ATTRIBUTE, self._pending[report.nodeid])
        self._write_pending(report.nodeid)


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
        planned_looks=runtime.looks,
        tasks=list(runtime.tasks.values()),
        allocations=AllocationTable(
            {**runtime.table.allocations, **runtime.known_allocations}, runtime.table.equal_sets
        ),
        engine=runtime.backend.info,
        agent=runtime.agent_facts,
        budget=runtime.budget,
        images=runtime.images,
        admit=settings.admit,
        leftovers=settings.leftovers,
        enforcement=settings.enforcement,
        is_clamped=settings.clamp,
        workers=int(config.getoption("numprocesses", None) or 0),
        passed_variables=settings.agent_env,
        notes=runtime.warnings,
    )


def lost_trial(runtime: Runtime, report: pytest.TestReport) -> TrialRecord | None:
    """Return the record of a trial whose worker died in it; None if the item was no trial."""
    planned = trial_of(runtime, report.nodeid)
    if planned is None:
        return None
    name, parameter_set, sample = planned
    node = getattr(report, "node", None)
    block, position = runtime.place_of(planned)
    return TrialRecord(
        study=runtime.handover.study,
        task=name,
        parameter_set=parameter_set,
        sample=sample,
        attempt=1,
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


def _limits(runtime: Runtime, task: str, parameter_set: str) -> dict[str, Any]:
    """Return the limits of a trial whose task this process knows."""
    own = runtime.table.allocations.get(task)
    if own is None:
        return {}
    limits = asdict(own[parameter_set].effective)
    del limits["notes"]
    return limits


def trial_of(runtime: Runtime, nodeid: str) -> tuple[str, str, int] | None:
    """Return task, parameter set and sample of an item id, or None if it is no trial's."""
    place, _, name = nodeid.rpartition("::")
    test, bracket, inside = name.partition("[")
    for parameter_set in runtime.sets:
        own = rf"(?P<before>.*-)?{re.escape(parameter_set)}-s(?P<sample>\d+)(?P<after>-.*)?"
        match = re.fullmatch(own, inside.removesuffix("]") if bracket else name)
        if match is None:
            continue
        sample = int(match["sample"])
        if not bracket:
            task = runtime.task_names.get((runtime.config.rootpath / place).parent)
            return None if task is None else (task, parameter_set, sample)
        others = ((match["before"] or "") + (match["after"] or "")[1:]).strip("-")
        return (f"{place}::{test}" + (f"[{others}]" if others else ""), parameter_set, sample)
    return None
