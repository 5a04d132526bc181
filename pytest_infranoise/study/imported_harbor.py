"""Job folders of Harbor (schema version 1): `<job>/<task>__<id>/result.json`, one per trial."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.outcome import Cause, Ending, Outcome, Phase
from pytest_infranoise.model.trial import PhaseRecord
from pytest_infranoise.model.usage import Usage, together, usage_of
from pytest_infranoise.study.imported_fields import Fields, read_fields
from pytest_infranoise.study.imported_runs import (
    FAILED,
    NOT_MEASURED,
    TIMEOUT,
    UNKNOWN_WORD,
    ImportedRun,
    ImportedTrial,
    Meaning,
    infra,
    phase_record,
    start_order,
)

KIND = "harbor"
RESULT = "result.json"
SCHEMA_VERSION = 1

_BY_MEANING: Sequence[tuple[Meaning, str]] = (
    (TIMEOUT, "AgentTimeoutError"),
    (
        FAILED,
        "NonZeroAgentExitCodeError ContextWindowExceededError OutputTokenExceededError "
        "ContextLengthExceededError OutputLengthExceededError AgentSafetyRefusalError "
        "ContentPolicyViolationError",
    ),
    # Harbor's own watch saw the limit passed and killed the container: no other type proves a kill.
    (Meaning(Outcome.OOM, Cause.ENDED_PHASE), "MemoryLimitExceededError"),
    (infra(Cause.UNATTRIBUTED_KILL), "SandboxLikelyOutOfMemoryError"),
    (infra(Cause.IMAGE), "SandboxBuildFailedError"),
    (
        infra(Cause.SANDBOX_START),
        "EnvironmentStartTimeoutError AgentSetupTimeoutError HealthcheckError",
    ),
    (
        infra(Cause.SANDBOX_LOST),
        "SSHAccessError GKEExecStreamClosedError GKEPodNotFoundError RuntimeRequestError",
    ),
    (infra(Cause.VERIFIER_TIMEOUT), "VerifierTimeoutError"),
    (infra(Cause.REWARD_MISSING), "RewardFileNotFoundError RewardFileEmptyError"),
    (infra(Cause.REWARD_INVALID), "VerifierOutputParseError"),
    (
        infra(Cause.HARNESS),
        "AddTestsDirError DownloadVerifierDirError ServiceOperationsUnsupportedError "
        "VercelScopeError DspyImportError MissingExtraError RegradeError",
    ),
    (NOT_MEASURED, "CancelledError"),
    (
        infra(Cause.MODEL_API),
        "ApiError ApiRateLimitError ApiUsageLimitError ApiInternalServerError ApiOverloadedError "
        "ApiConnectionClosedError ApiResponseStalledError ApiConnectionError UnknownApiError "
        "NetworkConnectionError RateLimitError InternalServerError ServiceUnavailableError "
        "APIConnectionError APIError Timeout AgentAuthenticationError AuthenticationError "
        "PermissionDeniedError ModelNotFoundError NotFoundError ApiProviderResourceNotFoundError "
        "UnsupportedModelParametersError BadRequestError UnprocessableEntityError "
        "UnsupportedParamsError APIResponseValidationError BudgetExceededError",
    ),
)

EXCEPTIONS: Mapping[str, Meaning] = {
    name: meaning for meaning, names in _BY_MEANING for name in names.split()
}
"""What Harbor's types of exceptions mean where the trial has not passed (docs/cli.md)."""

_USAGE = {
    "n_input_tokens": "input_tokens",
    "n_cache_tokens": "cached_input_tokens",
    "n_output_tokens": "output_tokens",
    "cost_usd": "cost_usd",
}
"""Harbor's figures of an agent's usage, and ours."""

_EXIT_CODE = re.compile(r"\bexit(?: code)? (\d{1,3})\b")
_FACTS = (
    "environment.type", "environment.import_path", "environment.override_memory_mb",
    "environment.override_cpus", "environment.memory_enforcement_policy",
    "environment.cpu_enforcement_policy", "timeout_multiplier", "agent_timeout_multiplier",
    "verifier_timeout_multiplier", "n_attempts",
)  # fmt: skip
"""What is kept of a job's configuration: how limits were asked for, never what enforced them."""


@dataclass(frozen=True, slots=True)
class _Read:
    """One trial's file: the trial, or why it is none."""

    name: str
    agent: tuple[str, str | None]
    version: str | None
    dataset: str
    trial: ImportedTrial | None
    left_out: str | None
    reward: float | None

    @property
    def evaluation(self) -> str:
        """The key of Harbor's own statistics."""
        return "__".join(part for part in (*self.agent, self.dataset) if part)


def read_harbor(
    folder: Path, *, evaluation: str | None = None, pass_threshold: float = 1.0
) -> ImportedRun:
    """Read a job's folder.

    Args:
        folder: The folder that holds a folder per trial.
        evaluation: The key of `stats.evals` to take; None takes all, of one agent and model.
        pass_threshold: The least reward that passes.

    Raises:
        UsageError: a file cannot be used; the message names it, with its key.
    """
    job = _job(folder)
    read = [_read_trial(file, pass_threshold) for file in _results(folder)]
    if not read:
        raise UsageError(f"{folder}: no trial: no folder in it holds a {RESULT}")
    chosen = _chosen(read, folder, evaluation)
    agent, model = chosen[0].agent
    config = _optional(folder / "config.json")
    return ImportedRun(
        kind=KIND,
        name=folder.resolve().name,
        identity="\n".join([job.text("id") if job else "", *sorted(item.name for item in chosen)]),
        trials=_by_time(item.trial for item in chosen if item.trial is not None),
        agent={"name": agent, "model": model, "version": _version(chosen)},
        concurrency=None if config is None else config.optional_count("n_concurrent_trials"),
        pass_threshold=pass_threshold,
        left_out=Counter(item.left_out for item in chosen if item.left_out is not None),
        facts=_facts(config, folder),
        notes=tuple(_notes(job, chosen, pass_threshold)),
    )


def _job(folder: Path) -> Fields | None:
    """Return the job's own result; refuse what is a folder of jobs, or a trial's."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: not a folder; name the folder of one job")
    if not (folder / RESULT).is_file():
        jobs = [
            file.parent.name
            for file in _results(folder)
            if "n_total_trials" in read_fields(file).values
        ]
        if jobs:
            raise UsageError(f"{folder}: a folder of jobs; name one of them: {', '.join(jobs[:8])}")
        return None
    job = read_fields(folder / RESULT)
    _check_version(job)
    if "trial_name" in job.values:
        raise UsageError(f"{folder}: the folder of one trial; name that of its job")
    return job


def _results(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob(f"*/{RESULT}"))
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}") from error


def _optional(file: Path) -> Fields | None:
    return read_fields(file) if file.is_file() else None


def _check_version(fields: Fields) -> None:
    version = fields.values.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        raise fields.refusal("schema_version", f"{version!r} is not {SCHEMA_VERSION}")


def _chosen(read: Sequence[_Read], folder: Path, evaluation: str | None) -> list[_Read]:
    known = sorted({item.evaluation for item in read})
    if evaluation is not None:
        chosen = [item for item in read if item.evaluation == evaluation]
        if not chosen:
            raise UsageError(f"--eval: {evaluation!r} is not in {folder}: {', '.join(known)}")
        return chosen
    if len({item.agent for item in read}) > 1:
        raise UsageError(
            f"{folder}: holds several agents or models, and a study has one; choose with --eval: "
            + ", ".join(known)
        )
    places: dict[str, str] = {}
    for item in read:
        task = "" if item.trial is None else item.trial.task
        if task and places.setdefault(task, item.dataset) != item.dataset:
            raise UsageError(
                f"{folder}: task {task!r} is in two data sets; choose one with --eval: "
                + ", ".join(known)
            )
    return list(read)


def _read_trial(file: Path, pass_threshold: float) -> _Read:
    fields = read_fields(file)
    _check_version(fields)
    agent = fields.optional_object("agent_info")
    if agent is None:
        raise fields.refusal("agent_info", "is missing")
    model = agent.optional_object("model_info")
    score = _score(fields)
    found = _classify(fields, score, pass_threshold)
    return _Read(
        name=fields.text("trial_name"),
        agent=(agent.text("name"), None if model is None else model.text("name")),
        version=agent.optional_text("version"),
        dataset=fields.optional_text("source") or "adhoc",
        trial=None if isinstance(found, str) else _trial(fields, found, score),
        left_out=found if isinstance(found, str) else None,
        reward=score if _is_valid(fields) else None,
    )


_Found = tuple[Outcome, Cause | None, str | None]


def _classify(fields: Fields, score: float | None, pass_threshold: float) -> _Found | str:
    """Return outcome, cause and detail, or the reason why there is no trial."""
    names, detail = _exceptions(fields)
    if score is not None and score >= pass_threshold and _is_valid(fields):
        return Outcome.PASSED, None, detail
    meanings = [EXCEPTIONS.get(name, UNKNOWN_WORD) for name in names]
    # What kept the trial from its end decides, not an exit code on the way.
    first = next((item for item in meanings if item != FAILED), FAILED)
    if first.outcome is None:
        return names[meanings.index(first)]
    if first == FAILED and score is None:
        return Outcome.INFRA_ERROR, Cause.REWARD_MISSING, detail or "no reward in the file"
    return first.outcome, first.cause, detail


def _exceptions(fields: Fields) -> tuple[list[str], str | None]:
    """Return the types of a trial's exceptions, its own first, and the line about them.

    Messages are not kept: they quote command lines and output.
    """
    names, words = [], []
    for place in (fields, *_steps(fields)):
        info = place.optional_object("exception_info")
        if info is None:
            continue
        names.append(info.text("exception_type"))
        message = info.values.get("exception_message")
        code = _EXIT_CODE.search(message) if isinstance(message, str) else None
        words.append(names[-1] + (f" (exit code {code[1]})" if code else ""))
    return names, ", ".join(dict.fromkeys(words)) or None


def _score(fields: Fields) -> float | None:
    """Return the reward: the number of that name, else the mean of all."""
    verifier = fields.optional_object("verifier_result")
    rewards = {} if verifier is None else verifier.numbers("rewards")
    if not rewards:
        return None
    return rewards.get("reward", math.fsum(rewards.values()) / len(rewards))


def _is_valid(fields: Fields) -> bool:
    """Whether Harbor itself counts the reward; versions that do not say so count every one."""
    return fields.optional_flag("reward_valid") is not False


def _trial(fields: Fields, found: _Found, score: float | None) -> ImportedTrial:
    outcome, cause, detail = found
    return ImportedTrial(
        task=fields.text("task_name"),
        outcome=outcome,
        cause=cause,
        detail=detail,
        score=score,
        started_at=fields.optional_time("started_at"),
        ended_at=fields.optional_time("finished_at"),
        phases=_phases(fields, outcome, cause),
        content=fields.optional_text("task_checksum"),
        usage=_usage(fields),
    )


def _usage(fields: Fields) -> Usage | None:
    """Return tokens and cost as the agent reported them, those of all steps together."""
    contexts = [place.optional_object("agent_result") for place in (fields, *_steps(fields))]
    parts = [
        usage_of(
            {ours: context.values.get(theirs) for theirs, ours in _USAGE.items()},
            source="agent_result",
        )[0]
        for context in contexts
        if context is not None
    ]
    return together(parts)


def _steps(fields: Fields) -> list[Fields]:
    return list(fields.objects("step_results"))


def _phases(fields: Fields, outcome: Outcome, cause: Cause | None) -> tuple[PhaseRecord, ...]:
    """Return agent and verification where the file tells how they ended."""
    names, _ = _exceptions(fields)
    agent = Ending.DEADLINE if "AgentTimeoutError" in names else Ending.EXIT
    verify = Ending.DEADLINE if cause is Cause.VERIFIER_TIMEOUT else Ending.EXIT
    if outcome in (Outcome.OOM, Outcome.INFRA_ERROR) and cause is not Cause.VERIFIER_TIMEOUT:
        return ()
    found: list[PhaseRecord] = []
    for key, phase, ending in (
        ("agent_execution", Phase.AGENT, agent),
        ("verifier", Phase.VERIFY, verify),
    ):
        if (times := fields.optional_object(key)) is not None:
            start, end = times.optional_time("started_at"), times.optional_time("finished_at")
            found += phase_record(phase, ending, start, end)
    return tuple(found)


def _by_time(trials: Iterable[ImportedTrial]) -> list[ImportedTrial]:
    """Return trials in the order of their starts, those without one last."""
    return sorted(trials, key=start_order)


def _version(read: Sequence[_Read]) -> str | None:
    versions = {item.version for item in read}
    return versions.pop() if len(versions) == 1 else None


def _facts(config: Fields | None, folder: Path) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    lock = _optional(folder / "lock.json")
    harbor = None if lock is None else lock.optional_object("harbor")
    if harbor is not None:
        facts["harbor"] = harbor.optional_text("version")
    for name in _FACTS if config is not None else ():
        group, _, key = name.rpartition(".")
        place = config.optional_object(group) if group and config is not None else config
        value = None if place is None else place.values.get(key)
        if isinstance(value, str | int | float):
            facts[name] = value
    return facts


def _notes(job: Fields | None, read: Sequence[_Read], pass_threshold: float) -> Iterator[str]:
    """Say where the trials' files and the job's own statistics do not agree."""
    killed = sum(
        "exit code 137" in (item.trial.detail or "")
        for item in read
        if item.trial is not None and item.trial.outcome is not Outcome.PASSED
    )
    if killed:
        yield f"{killed} trial(s) ended with exit code 137, which does not prove a memory kill"
    stats = None if job is None else job.optional_object("stats")
    if job is None or stats is None:
        return
    total, done = job.optional_count("n_total_trials"), stats.optional_count("n_completed_trials")
    if total is not None and done is not None and done < total:
        yield f"the job has not ended: {done} of {total} trials"
    if retries := stats.optional_count("n_retries"):
        yield (
            f"Harbor ran {retries} trial(s) again and kept the last attempt alone, so infra errors "
            "are understated"
        )
    counted = _counted(stats, {item.evaluation for item in read}, pass_threshold)
    found = sum(item.reward is not None and item.reward >= pass_threshold for item in read)
    if counted is not None and counted != found:
        yield f"{RESULT} counts {counted} trial(s) that passed, the trials' own files {found}"


def _counted(stats: Fields, evaluations: set[str], pass_threshold: float) -> int | None:
    """Return how many trials passed by the job's own statistics; None where they do not say."""
    evals = stats.optional_object("evals")
    if evals is None:
        return None
    total = 0
    for name in evaluations:
        own = evals.optional_object(name)
        rewards = None if own is None else own.optional_object("reward_stats")
        by_value = None if rewards is None else rewards.optional_object("reward")
        if by_value is None:
            return None
        for value in by_value.values:
            try:
                passes = float(value) >= pass_threshold
            except ValueError:
                raise by_value.refusal(value, "is not a number") from None
            total += len(by_value.names(value)) if passes else 0
    return total
