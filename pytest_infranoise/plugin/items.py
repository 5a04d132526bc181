"""Benchmark tasks as pytest's collection tree: folder > task.toml > one item per trial.

A task folder is a leaf: nothing inside it is collected, imported or used as configuration.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_infranoise.admission import AdmissionStoppedError
from pytest_infranoise.errors import InfranoiseError
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.model.task import Task
from pytest_infranoise.model.trial import TrialPlan, TrialRecord, trial_id
from pytest_infranoise.plugin.isolation import TASK_FILE, block_conftests, task_file_of
from pytest_infranoise.plugin.runtime import Runtime, get_runtime
from pytest_infranoise.plugin.selection import is_ignored
from pytest_infranoise.printable import printable

RECORD = pytest.StashKey[TrialRecord]()
"""Where an item keeps its trial's record until its report is made."""

LAST = pytest.StashKey[TrialRecord]()
"""The record of an item's last attempt, once it was put on a report."""

TRIAL = pytest.StashKey[tuple[str, str, int]]()
"""On every item that is a trial: task name, parameter set id, sample."""


UNNEEDED = pytest.StashKey[bool]()
"""On an item whose trial did not run because the study was decided before."""

UNRUN = pytest.StashKey[bool]()
"""On an item whose trial did not run because the run had come to a halt by itself."""


def skip_if_unwanted(item: pytest.Item) -> None:
    """Skip a trial that must not start any more: stopped, halted, or the study is decided."""
    runtime = get_runtime(item.config)
    if runtime.flags.should_stop():
        pytest.skip("not run: the session was stopped")
    if (reason := runtime.flags.halted()) is not None:
        item.stash[UNRUN] = True
        pytest.skip(f"not run: {reason}")
    if not runtime.needs(item.stash[TRIAL][2]):
        item.stash[UNNEEDED] = True
        pytest.skip("not needed: every parameter set was decided before this sample")


def next_attempt(item: pytest.Item, plan: TrialPlan) -> TrialPlan:
    """Return a plan with the number of the item's next attempt, if other plugins run it again."""
    last = item.stash.get(LAST, None)
    return plan if last is None else replace(plan, attempt=last.attempt + 1)


class TaskCollection:
    """Collection hooks, registered only when a sweep was asked for."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @property
    def _runtime(self) -> Runtime:
        return get_runtime(self._config)

    @pytest.hookimpl(tryfirst=True)
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Keep task folders, whatever they are called, but those that the user ignores."""
        if is_ignored(self._config, collection_path):
            return True
        if collection_path.name == TASK_FILE or task_file_of(collection_path) is not None:
            return False
        if task_file_of(collection_path.parent) == collection_path:
            return False
        own = self._runtime.task_files
        if own and (collection_path in own or own.get(collection_path.parent) == collection_path):
            return False
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(
        self, path: Path, parent: pytest.Collector
    ) -> "TaskDirectory | None":
        """Make a folder with a task.toml, or one that the suite has claimed, a task."""
        if path not in self._runtime.task_files and task_file_of(path) is None:
            return None
        manager = parent.config.pluginmanager
        block_conftests(manager, path, manager._getconftestmodules(path.parent))
        directory: TaskDirectory = TaskDirectory.from_parent(parent, path=path)
        return directory

    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> "pytest.Collector | None":
        """Make the data set of `--infra-swebench` a collection of tasks."""
        files = self._runtime.settings.swebench
        if files is None or file_path != files.instances:
            return None
        from pytest_infranoise.plugin.instances import InstancesFile

        collector: pytest.Collector = InstancesFile.from_parent(
            parent, path=file_path, **outside_id(parent.config, file_path)
        )
        return collector


class TaskDirectory(pytest.Directory):
    """A task's folder; hides everything in it but the file that describes the task."""

    def collect(self) -> Iterator["TaskFile"]:
        """Yield the task's one file; nothing of a task that the user leaves out."""
        runtime = get_runtime(self.config)
        if self.path in runtime.excluded:
            return
        own = runtime.task_files.get(self.path) or task_file_of(self.path)
        path = own or self.path / TASK_FILE
        yield TaskFile.from_parent(self, path=path, **outside_id(self.config, path))


def outside_id(config: pytest.Config, path: Path) -> dict[str, Any]:
    """Return the node id of a file outside of rootdir: its path from there, as for one inside.

    pytest's own counts from the argument of the command line, so that the files of two tasks that
    are named by themselves have one id.
    """
    if path.is_relative_to(config.rootpath):
        return {}
    return {"nodeid": Path(os.path.relpath(path, config.rootpath)).as_posix()}


class TaskFile(pytest.File):
    """A task's file, `task.toml` as a rule: one item per parameter set and sample."""

    def collect(self) -> Iterator["TrialItem"]:
        """Yield the task's trials; the order in which they run is made after collection."""
        runtime = get_runtime(self.config)
        yield from trials_of(self, self._task(runtime), runtime)

    def _task(self, runtime: Runtime) -> Task:
        folder = self.path.parent
        name = runtime.task_names.get(folder)
        if name is not None and name in runtime.tasks:
            return runtime.tasks[name]
        if name is None:
            raise self.CollectError(f"{self.path}: this task was not known when the run began")
        return runtime.read_task(folder, name)


def trials_of(parent: pytest.Collector, task: Task, runtime: Runtime) -> Iterator["TrialItem"]:
    """Yield a task's trials: one per parameter set and sample."""
    for sample in range(1, runtime.settings.samples + 1):
        for parameter_set in runtime.settings.sets:
            yield TrialItem.from_parent(
                parent,
                name=trial_id(parameter_set.id, sample),
                task=task,
                parameter_set=parameter_set.id,
                sample=sample,
            )


class TrialItem(pytest.Item):
    """One trial of a benchmark task."""

    def __init__(self, *, task: Task, parameter_set: str, sample: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.task = task
        self.parameter_set = parameter_set
        self.sample = sample
        self.stash[TRIAL] = (task.name, parameter_set, sample)
        # -k can select by the task's name and the set without the whole path.
        self.extra_keyword_matches.update({task.name, parameter_set})

    def runtest(self) -> None:
        """Run the trial; raise what describes it unless it passed."""
        from pytest_infranoise.plugin.attempts import reach_engine, run_attempts

        runtime = get_runtime(self.config)
        reach_engine(self, runtime)
        skip_if_unwanted(self)
        plan = next_attempt(self, runtime.plan(self.task, self.parameter_set, self.sample))
        image = runtime.image_of(self.task)
        skip_if_unwanted(self)
        try:
            record = run_attempts(self, runtime, plan, self.task, image)
        except AdmissionStoppedError:
            skip_if_unwanted(self)
            raise
        self.stash[RECORD] = record
        if record.outcome is not Outcome.PASSED:
            raise TrialNotPassed(record)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Describe a trial by its record, a usage error by its line."""
        if isinstance(excinfo.value, TrialNotPassed):
            return describe(excinfo.value.record)
        if isinstance(excinfo.value, InfranoiseError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return where the trial comes from, for pytest's headings."""
        return self.path, None, f"{self.task.name} {self.name}"


class TrialNotPassed(Exception):  # noqa: N818 - a result, not an error
    """Carries the record of a trial that did not pass to pytest's report."""

    def __init__(self, record: TrialRecord) -> None:
        super().__init__(str(record.outcome))
        self.record = record


def describe(record: TrialRecord) -> str:
    """Return a few lines about a trial that did not pass: what it was, and its last output."""
    cause = f" ({record.cause})" if record.cause else ""
    lines = [f"{record.task} at {record.parameter_set}: {record.outcome}{cause}"]
    if record.detail:
        lines.append(record.detail)
    for phase in record.phases:
        if phase.output.strip():
            lines.append(f"--- {phase.phase}, exit code {phase.exit_code} ---")
            lines.extend(phase.output.rstrip().splitlines()[-15:])
    return printable("\n".join(lines))
