"""What one pytest process needs to run trials, made when it is first needed.

There is one `Runtime` per process. In the process that the user started it resolves what the
`Handover` holds; in a worker it is made from that.
"""

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_infranoise.admission import (
    AdmissionLedger,
    Budget,
    ceiling_bytes,
    make_budget,
)
from pytest_infranoise.agents.base import Agent
from pytest_infranoise.backends.base import cannot_install
from pytest_infranoise.design import (
    AllocationTable,
    Trial,
    TrialAllocation,
    agent_timeout,
    allocate_task,
    effective_allocations,
    trial_seed,
)
from pytest_infranoise.errors import BackendUnavailableError, UsageError
from pytest_infranoise.model.resources import ParameterSet
from pytest_infranoise.model.task import PreparedImage, Task
from pytest_infranoise.model.trial import TrialPlan
from pytest_infranoise.plugin.agent_options import choose_agent, choose_install, place_of
from pytest_infranoise.plugin.exclusion import check_fit, check_patterns, pattern_of
from pytest_infranoise.plugin.handover import Handover, identity_of
from pytest_infranoise.plugin.schedule import Schedule
from pytest_infranoise.plugin.settings import Settings, read_settings
from pytest_infranoise.plugin.stopping import StopFlags
from pytest_infranoise.plugin.suite import classifier, collector
from pytest_infranoise.study.progress import flat, nested
from pytest_infranoise.trial import TrialContext
from pytest_infranoise.trial.policing import check_enforcement

if TYPE_CHECKING:
    from pytest_infranoise.backends.base import Backend
    from pytest_infranoise.model.install import AgentInstall
    from pytest_infranoise.plugin.instances import SwebenchSource
    from pytest_infranoise.statistics.sequential import Look
    from pytest_infranoise.study.redact import Redactor
    from pytest_infranoise.tasks.discovery import TaskSet

RUNTIME = pytest.StashKey["Runtime"]()

TEST_BODY = "test body"
"""How a study of marked tests alone names its agent."""

Progress = Callable[[str], None]


def get_runtime(config: pytest.Config) -> "Runtime":
    """Return this process's runtime, making it on first use.

    Raises:
        UsageError: an option cannot be used.
    """
    runtime = config.stash.get(RUNTIME, None)
    if runtime is None:
        runtime = config.stash[RUNTIME] = Runtime(config, read_settings(config))
    return runtime


def owner_of(pid: int) -> str:
    """Return how sandboxes name the process that opened them."""
    return f"{socket.gethostname()}:{pid}"


class Runtime:
    """Settings, engine, tasks and order of one process; engine and budget are made on first use."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self.config = config
        self.settings = settings
        identity = identity_of(config)
        seed = identity.seed if settings.seed is None else settings.seed
        self.handover = replace(identity, seed=seed)
        self.flags = StopFlags(self.handover.flags)
        self.worker = _worker_name(config)
        self.owner = owner_of(os.getpid())
        self.tasks: dict[str, Task] = {}
        self.task_names: dict[Path, str] = {
            Path(folder): name for folder, name in self.handover.task_names.items()
        }
        self.task_files: dict[Path, Path] = {
            Path(folder): Path(path) for folder, path in self.handover.task_files.items()
        }
        self.left_out: dict[str, str] = dict(self.handover.left_out)
        self.excluded: dict[Path, str] = {
            Path(folder): name for folder, name in self.handover.excluded.items()
        }
        self.screened: list[dict[str, Any]] = []
        self.warnings: list[str] = []
        self.known_trials: dict[str, Trial] = {}
        self.table = AllocationTable({})
        self.known_allocations: dict[str, dict[str, TrialAllocation]] = {}
        self.images: dict[str, PreparedImage] = dict(self.handover.images)
        self.schedule = Schedule(
            settings,
            seed=seed,
            extended_from=self.handover.extended_from,
            recorded=flat(self.handover.recorded),
            tasks=self.task_names,
            left_out=self.left_out,
        )

    # --- the run, as the process that the user started resolves it ---

    def discover(self, paths: Sequence[Path]) -> None:
        """Read every task below the paths.

        Raises:
            UsageError: what is wrong with the tasks, a line each.
        """
        found = self._discover(paths)
        for task in found.tasks:
            self.agent.check(task)
            self.add_task(task)
            assert task.directory is not None
            self.task_names[task.directory] = task.name
        self.task_files.update(found.files)
        self.warnings.extend(found.warnings)
        self.excluded.update(found.excluded)
        if self.swebench is not None:
            self._add_instances(self.swebench)
        check_patterns(
            self.settings.excluded,
            [*self.tasks, *self.excluded.values()],
            where=place_of(self.config, "exclude"),
        )

    def _add_instances(self, swebench: "SwebenchSource") -> None:
        for key, task in swebench.tasks.items():
            if self._is_excluded(task.name):
                self.excluded[key] = task.name
                continue
            if task.name in self.tasks:
                raise UsageError(f"{task.directory}: {task.name} is a task folder's name too")
            self.agent.check(task)
            self.add_task(task)
            self.task_names[key] = task.name
        self.warnings.extend(swebench.warnings)

    def resolve(self) -> None:
        """Check every task against the engine: features, limits, guarantees.

        Raises:
            UsageError: the engine does not answer, or something cannot be had on it.
        """
        if self.swebench is not None and not self.backend.info.has_images:
            raise UsageError(
                "--infra-swebench: instances are container images, which the "
                f"{self.backend.info.backend} backend does not have; use --infra-backend=docker"
            )
        tasks = self.selected_tasks
        if not self.backend.info.has_images and any(map(self._gets_agent, tasks)):
            raise UsageError(cannot_install(self.backend.info))
        check_fit(
            tasks,
            self.settings.sets,
            self.backend.info.capacity,
            self.budget,
            enforcement=self.settings.enforcement,
            admit=self.settings.admit,
            clamp=self.settings.clamp,
            check=self._check,
            excluded=self.settings.excluded,
        )
        self.table = effective_allocations(
            tasks, self.settings.sets, self.backend.info.capacity, clamp=self.settings.clamp
        )
        self.table = self._with_unselected(self.table)

    def _check(self, task: Task) -> None:
        """Note what the engine warns of in a task's sandboxes.

        Raises:
            UsageError: the engine does not have something that the task needs.
        """
        for sandbox in task.sandboxes:
            for warning in self.backend.check(sandbox):
                if warning not in self.warnings:
                    self.warnings.append(warning)

    def _is_excluded(self, name: str) -> bool:
        return pattern_of(name, self.settings.excluded) is not None

    def _with_unselected(self, table: AllocationTable) -> AllocationTable:
        """Return the table with the tasks that do not run now, as far as they fit the engine."""
        found = dict(table.allocations)
        for name, task in self.tasks.items():
            if name not in found:
                with suppress(UsageError):
                    capacity, clamp = self.backend.info.capacity, self.settings.clamp
                    found[name] = allocate_task(task, self.settings.sets, capacity, clamp=clamp)
        return replace(table, allocations=found)

    def prepare_images(self, progress: Progress) -> None:
        """Pull or build what every task needs of which a trial will run; it is charged to none.

        Raises:
            UsageError: an image cannot be had.
        """
        self.schedule.place(())
        samples = range(1, self.settings.samples + 1)
        for task in self.selected_tasks:
            if any(map(self.schedule.is_wanted, product([task.name], self.sets, samples))):
                self.image_of(task, progress)

    def hand_over(self) -> Handover:
        """Return what the workers need to know."""
        return replace(
            self.handover,
            backend=self.backend.info.backend if self.tasks else self.handover.backend,
            task_names={str(folder): name for folder, name in self.task_names.items()},
            images=self.images,
            task_files={str(folder): str(path) for folder, path in self.task_files.items()},
            left_out=self.left_out,
            excluded={str(folder): name for folder, name in self.excluded.items()},
            recorded=nested(self.schedule.recorded),
            extended_from=self.schedule.extended_from,
        )

    # --- what a trial needs ---

    @cached_property
    def backend(self) -> "Backend":
        """The engine, opened on first use.

        Raises:
            UsageError: it does not answer, or this host lacks what it needs.
        """
        from pytest_infranoise.backends.registry import open_backend

        name = self.handover.backend or self.settings.backend
        backend = open_backend(name, informative_agent=not self.agent.is_reference)
        try:
            check_enforcement(self.settings.enforcement, backend.info)
        except UsageError:
            backend.close()
            raise
        return backend

    def outage(self) -> str | None:
        """Say why no sandbox can be had of the engine now; None where one can."""
        try:
            return self.backend.outage()
        except BackendUnavailableError as error:
            return str(error)

    @property
    def enforcement_words(self) -> str:
        """How limits are enforced, in words."""
        return self.settings.enforcement.words(self.backend.info.enforcement)

    @property
    def has_backend(self) -> bool:
        """Whether the engine was needed so far."""
        return "backend" in self.__dict__

    @cached_property
    def agent(self) -> Agent:
        """What works on task folders.

        Raises:
            UsageError: there is no such agent.
        """
        if self.swebench is not None and self.swebench.agent is not None:
            return self.swebench.agent
        return choose_agent(self.config, self.settings.agent)

    @cached_property
    def install(self) -> "AgentInstall | None":
        """What is installed into the images of task folders, None for nothing.

        Raises:
            UsageError: it cannot be read, or nobody needs it.
        """
        return choose_install(self.config, self.agent)

    @cached_property
    def swebench(self) -> "SwebenchSource | None":
        """The data set of `--infra-swebench`, None without one.

        Raises:
            UsageError: it or the predictions cannot be used.
        """
        if self.settings.swebench is None:
            return None
        from pytest_infranoise.plugin.instances import SwebenchSource

        return SwebenchSource(self.settings)

    @property
    def agent_facts(self) -> dict[str, Any]:
        """What is known of the agent; without any task folder it is the tests' own bodies."""
        if not self.task_names:
            return {"name": TEST_BODY}
        facts = {"name": self.agent.name, **self.agent.settings}
        return facts if self.install is None else {**facts, "install": self.install.digest}

    @cached_property
    def budget(self) -> Budget:
        """What all trials on the engine may reserve together."""
        return make_budget(
            self.backend.info.capacity,
            memory_bytes=self.settings.memory_budget_bytes,
            cpu_cores=self.settings.cpu_budget_cores,
        )

    @cached_property
    def sets(self) -> dict[str, ParameterSet]:
        """The parameter sets by id."""
        return {item.id: item for item in self.settings.sets}

    @cached_property
    def context(self) -> TrialContext:
        """What all trials of this process share."""
        return TrialContext(
            backend=self.backend,
            agent=self.agent,
            ledger=AdmissionLedger(
                self.backend.info.engine_id, name=f"study {self.handover.study}"
            ),
            budget=self.budget,
            worker=self.worker,
            owner=self.owner,
            admit=self.settings.admit,
            leftovers=self.settings.leftovers,
            pass_threshold=self.settings.pass_threshold,
            reclassify=classifier(self.config),
            enforcement=self.settings.enforcement,
            ceiling_bytes=ceiling_bytes(self.budget, self.backend.info.capacity),
            environment=self.passed_environment(),
            masked_paths=self._masked_paths(),
            should_stop=self.flags.should_start_none,
        )

    def context_of(self, sample: int) -> TrialContext:
        """Return what a trial of this sample gets: one that is not needed leaves the queue."""
        if not self.settings.until_decided:
            return self.context
        return replace(
            self.context,
            should_stop=lambda: self.flags.should_start_none() or not self.needs(sample),
        )

    def needs(self, sample: int) -> bool:
        """Whether trials of this sample are still needed."""
        return not self.settings.until_decided or self.flags.needs(sample)

    @cached_property
    def looks(self) -> tuple["Look", ...]:
        """The planned looks of a study that ends once it is decided, else none."""
        if not self.settings.until_decided:
            return ()
        from pytest_infranoise.statistics.sequential import planned_looks

        return planned_looks(self.settings.samples)

    @cached_property
    def redactor(self) -> "Redactor":
        """Removes the values of passed-through variables from whatever is shown or written."""
        from pytest_infranoise.study.redact import Redactor

        return Redactor(self.passed_environment())

    @property
    def studied_tasks(self) -> list[Task]:
        """The known tasks that the study does not leave out."""
        return [task for name, task in self.tasks.items() if name not in self.left_out]

    @cached_property
    def selected_tasks(self) -> list[Task]:
        """The known tasks with a trial that the session's options select."""
        from pytest_infranoise.plugin.selection import Selection

        selection = Selection(self.config, self.sets, self.settings.samples)
        chosen = set(selection.chosen(self.task_names, self.task_files))
        return [task for task in self.tasks.values() if task.name in chosen]

    def add_task(self, task: Task) -> None:
        """Make a task known to this process."""
        self.tasks[task.name] = task

    def read_task(self, folder: Path, name: str) -> Task:
        """Read one task folder that the controller has checked, under the name it has there."""
        task = replace(self._discover([folder]).tasks[0], name=name)
        self.add_task(task)
        return task

    def image_of(self, task: Task, progress: Progress = lambda line: None) -> PreparedImage:
        """Return a task's image, preparing it on first use.

        Raises:
            UsageError: it cannot be had.
        """
        if task.name not in self.images:
            self.images[task.name] = self._with_agent(
                task, self.backend.prepare(task, progress), progress
            )
            for verifier in task.verifiers:
                self.backend.prepare(verifier.sandbox, progress)
        return self.images[task.name]

    def _with_agent(self, task: Task, image: PreparedImage, progress: Progress) -> PreparedImage:
        """Return a task's image with the agent installed."""
        if self.install is None or not self._gets_agent(task):
            return image
        return self.backend.install(
            task, image, self.install, progress, study=self.handover.study, owner=self.owner
        )

    def _gets_agent(self, task: Task) -> bool:
        """Whether something is installed into a task's image; a marked test is its own agent."""
        is_marked = task.instruction is None and not task.steps
        return self.install is not None and not is_marked

    def plan(self, task: Task, parameter_set: str, sample: int) -> TrialPlan:
        """Return one trial's plan.

        Raises:
            UsageError: the engine cannot enforce what the parameter set asks for.
        """
        if task.name not in self.known_allocations:
            capacity = self.backend.info.capacity
            self.known_allocations[task.name] = allocate_task(
                task, self.settings.sets, capacity, clamp=self.settings.clamp
            )
        given = self.known_allocations[task.name][parameter_set]
        trial = (task.name, parameter_set, sample)
        block, position = self.schedule.place_of(trial)
        return TrialPlan(
            study=self.handover.study,
            task=task.name,
            parameter_set=self.sets[parameter_set],
            sample=sample,
            block=block,
            position=position,
            seed=trial_seed(self.handover.seed, task.name, sample),
            requested=given.requested,
            allocation=self.settings.enforcement.granted(given.effective),
            agent_timeout_seconds=agent_timeout(task, self.sets[parameter_set]),
            attempt=self.schedule.attempt_of(trial),
        )

    def sweep(self, owner: str | None = None) -> None:
        """Remove the study's sandboxes (of one owner), if the engine was ever used here."""
        self.backend.sweep(self.handover.study, owner)

    def close(self) -> None:
        """Release the engine's connections."""
        if self.has_backend:
            self.backend.close()

    def _discover(self, paths: Sequence[Path]) -> "TaskSet":
        from pytest_infranoise.tasks.discovery import discover

        found = discover(
            paths,
            default_memory_bytes=self.settings.default_memory_bytes,
            default_cpu_cores=self.settings.default_cpu_cores,
            host_environment=os.environ,
            uses_solution=self.settings.agent == "oracle" or self.settings.screen_oracle,
            ask=collector(self.config),
            is_excluded=self._is_excluded,
        )
        build = self.settings.image_build
        return replace(found, tasks=tuple(task.with_build(build) for task in found.tasks))

    def passed_environment(self) -> dict[str, str]:
        """Return the host variables that every step sees.

        Raises:
            UsageError: one of them is not set.
        """
        for name in self.settings.agent_env:
            if "=" in name:
                raise UsageError(
                    f"--infra-agent-env={name.partition('=')[0]}=...: give the name alone; "
                    "the value is taken from the environment"
                )
            if name not in os.environ:
                raise UsageError(f"--infra-agent-env={name}: this variable is not set here")
        return {name: os.environ[name] for name in self.settings.agent_env}

    def _masked_paths(self) -> list[Path]:
        """Return the host folders that no task may see: tasks, their history, and studies."""
        masked = set()
        for folder in self.task_names:
            masked.add(folder)
            masked.update(
                parent / ".git" for parent in folder.parents if (parent / ".git").exists()
            )
        masked.add(self.config.rootpath / ".infranoise")
        if self.settings.study_directory is not None:
            masked.add(self.settings.study_directory)
        if (files := self.settings.swebench) is not None:
            masked.update(path for path in (files.instances, files.predictions) if path)
        return sorted(path for path in masked if path.exists())


def _worker_name(config: pytest.Config) -> str:
    return str(getattr(config, "workerinput", {}).get("workerid", "main"))
