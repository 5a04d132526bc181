"""SWE-bench instances in pytest's collection: the data set's file > one node per instance > trials.

The file is collected although no argument names it, and its tasks have no folders: each goes by the
path that an entry of its name in the file would have.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_infranoise.agents.base import IN_SANDBOX
from pytest_infranoise.agents.patch import PatchAgent
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.task import Task
from pytest_infranoise.plugin.items import TrialItem, trials_of
from pytest_infranoise.plugin.options import option_value
from pytest_infranoise.plugin.runtime import get_runtime
from pytest_infranoise.plugin.settings import Settings, absolute_path
from pytest_infranoise.tasks.place import display_path
from pytest_infranoise.tasks.resources import ResourceDefaults
from pytest_infranoise.tasks.swebench import (
    Predictions,
    patch_files,
    read_instances,
    read_predictions,
)


def add_data_set(config: pytest.Config) -> None:
    """Have the data set of `--infra-swebench` collected: alone, or beside what the user named."""
    path = absolute_path(config, option_value(config, "swebench"))
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = [str(path)]
        config.args_source = pytest.Config.ArgsSource.ARGS
    elif not any(absolute_path(config, item.split("::")[0]) == path for item in config.args):
        config.args = [*config.args, str(path)]


class SwebenchSource:
    """The instances of a run and, with predictions, the agent that applies these.

    `tasks` are by the path that stands for each, `warnings` say what was left out.

    Raises:
        UsageError: a file cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        files = settings.swebench
        assert files is not None
        self.warnings: tuple[str, ...] = ()
        self.agent: PatchAgent | None = None
        predictions = None if files.predictions is None else read_predictions(files.predictions)
        tasks = read_instances(
            files.instances,
            defaults=ResourceDefaults(settings.default_memory_bytes, settings.default_cpu_cores),
            image=files.image,
            agent_timeout_seconds=settings.default_timeout_seconds,
        )
        if predictions is not None:
            assert files.predictions is not None
            tasks = self._predicted(tasks, predictions, files.predictions)
        self.tasks: dict[Path, Task] = {files.instances / task.name: task for task in tasks}

    def _predicted(
        self, tasks: tuple[Task, ...], predictions: Predictions, path: Path
    ) -> tuple[Task, ...]:
        """Return the instances with a prediction, and make the agent that applies them."""
        kept = tuple(task for task in tasks if task.name in predictions.patches)
        where = display_path(path)
        if not kept:
            raise UsageError(f"{where}: has no prediction for any instance of --infra-swebench")
        counts = {
            "instance(s) have no prediction and are left out": len(tasks) - len(kept),
            "prediction(s) are for no instance of the data set": len(predictions.patches)
            - len(kept),
        }
        self.warnings = tuple(f"{where}: {count} {text}" for text, count in counts.items() if count)
        self.agent = PatchAgent(
            predictions.model,
            {task.name: patch_files(predictions.patches[task.name]) for task in kept},
            settings={
                "predictions": path.name,
                "predictions_sha256": predictions.digest,
                "location": IN_SANDBOX,
            },
        )
        return kept


class InstancesFile(pytest.File):
    """A data set's file."""

    def collect(self) -> Iterator["InstanceNode"]:
        """Yield the instances."""
        runtime = get_runtime(self.config)
        assert runtime.swebench is not None
        for key, task in runtime.swebench.tasks.items():
            if key in runtime.excluded:
                continue
            yield InstanceNode.from_parent(self, name=task.name, task=task)


class InstanceNode(pytest.Collector):
    """One instance."""

    def __init__(self, *, task: Task, **kwargs: object) -> None:
        super().__init__(**kwargs)  # type: ignore[arg-type]
        self.task = task

    def collect(self) -> Iterator[TrialItem]:
        """Yield the instance's trials."""
        runtime = get_runtime(self.config)
        runtime.add_task(self.task)
        yield from trials_of(self, self.task, runtime)
