"""`--infra-screen-oracle`: which tasks their own reference solution solves, before the study.

A task that its author's solution does not solve without any limit measures nothing: its verifier
cannot reach the network, its image is broken, or its solution is stale. Such tasks are left out.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_infranoise.agents.builtin import OracleAgent
from pytest_infranoise.design import agent_timeout, allocate_task, trial_seed
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.outcome import Outcome
from pytest_infranoise.model.resources import UNCAPPED, Multiplier, ParameterSet
from pytest_infranoise.model.task import Leftovers, Task
from pytest_infranoise.model.trial import TrialPlan, TrialRecord
from pytest_infranoise.report.model import one_line
from pytest_infranoise.trial import TrialContext, run_trial

if TYPE_CHECKING:
    from pytest_infranoise.plugin.runtime import Runtime

SCREEN_SET = ParameterSet("oracle-screen", Multiplier(None), Multiplier(None))
NO_SOLUTION = "not screened: it has no reference solution"


def screen_tasks(
    runtime: "Runtime", progress: Callable[[str], None], known: Sequence[Mapping[str, Any]] = ()
) -> None:
    """Run the selected tasks' reference solutions uncapped; note in `runtime` what to leave out.

    As many run at once as the session has workers, each with its guarantee reserved. `known` is
    what a session before this one found.

    Raises:
        UsageError: no task is left.
    """
    before = {item["task"] for item in known}
    tasks = [task for task in runtime.selected_tasks if task.name not in before]
    workers = max(1, int(runtime.config.getoption("numprocesses", None) or 0))
    found: dict[str, dict[str, Any]] = {}
    pool = ThreadPoolExecutor(max_workers=max(1, min(workers, len(tasks))))
    try:
        running = {pool.submit(screen_task, runtime, task): task for task in tasks}
        for done in as_completed(running):
            result = found[running[done].name] = done.result()
            words = result["reason"] or result["note"] or "passed"
            progress(
                f"infranoise: oracle screen, {len(found)} of {len(tasks)}: "
                f"{result['task']}: {one_line(words, 120)}"
            )
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        runtime.sweep()  # ends what still runs
        raise
    finally:
        pool.shutdown()
    take_screening(runtime, [*known, *(found[task.name] for task in tasks)])


def take_screening(runtime: "Runtime", screened: Sequence[Mapping[str, Any]]) -> None:
    """Leave out of a study what its screening found broken.

    Raises:
        UsageError: no task is left.
    """
    runtime.screened = [dict(item) for item in screened]
    runtime.left_out.clear()
    runtime.left_out.update({item["task"]: item["reason"] for item in screened if item["reason"]})
    if runtime.left_out and runtime.left_out.keys() >= runtime.tasks.keys():
        lines = [f"{name}: {reason}" for name, reason in runtime.left_out.items()]
        raise UsageError("\n".join(["--infra-screen-oracle leaves no task:", *lines[:10]]))


def screen_task(runtime: "Runtime", task: Task) -> dict[str, Any]:
    """Return what became of a task's reference solution, as builtins for the manifest.

    `reason` says why the task is to be left out, None to keep it.
    """
    facts: dict[str, Any] = {"task": task.name, "outcome": None, "reason": None, "note": None}
    try:
        OracleAgent().check(task)
    except UsageError:
        return facts | {"note": NO_SOLUTION}
    leftovers: Leftovers = task.leftovers or runtime.settings.leftovers
    record = _run(runtime, task, leftovers, number=1)
    facts |= {
        "outcome": record.outcome.value,
        "cause": None if record.cause is None else record.cause.value,
        "score": record.score,
        "wall_seconds": record.wall_seconds,
        "memory_peak_bytes": record.memory_peak_bytes,
        "leftovers": leftovers,
    }
    if record.outcome is Outcome.PASSED:
        return facts
    reason = _reason(record)
    if leftovers == "kill":
        kept = _run(runtime, task, "keep", number=2)
        facts["passes_with_keep"] = kept.outcome is Outcome.PASSED
        if facts["passes_with_keep"]:
            reason = f"passes only with leftovers keep, and the study uses kill ({reason})"
    return facts | {"reason": reason}


def _run(runtime: "Runtime", task: Task, leftovers: Leftovers, *, number: int) -> TrialRecord:
    context: TrialContext = replace(runtime.context, agent=OracleAgent(), admit="guarantee")
    plan = screening_plan(runtime, task, number)
    image = runtime.image_of(task)
    return runtime.redactor.trial(
        run_trial(plan, replace(task, leftovers=leftovers), image, context)
    )


def screening_plan(runtime: "Runtime", task: Task, number: int) -> TrialPlan:
    """Return the plan of a trial outside of the study: no limits, the task's own time."""
    capacity = runtime.backend.info.capacity
    given = allocate_task(task, [SCREEN_SET], capacity, clamp=True)[SCREEN_SET.id]
    return TrialPlan(
        study=runtime.handover.study,
        task=task.name,
        parameter_set=SCREEN_SET,
        sample=number,
        block=-1,
        position=-1,
        seed=trial_seed(runtime.handover.seed, task.name, 0),
        requested=given.requested,
        allocation=given.effective,
        agent_timeout_seconds=agent_timeout(task, SCREEN_SET),
    )


def _reason(record: TrialRecord) -> str:
    words = f"its reference solution is {record.outcome} {UNCAPPED}"
    if record.cause is not None:
        words += f", {record.cause}"
    if record.detail:
        words += f": {record.detail}"
    elif record.score:
        words += f", with a reward of {record.score:g}"
    return one_line(words, 400)
