"""The options of a run, read and checked."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_infranoise import units
from pytest_infranoise.admission import Admit
from pytest_infranoise.backends.registry import check_name
from pytest_infranoise.design import Order
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.enforcement import Enforcement, choose_enforcement
from pytest_infranoise.model.resources import (
    ONE,
    ParameterSet,
    baseline_of,
    crossed_sets,
    joint_sets,
    parse_multipliers,
    with_control,
)
from pytest_infranoise.model.task import ImageBuild, Leftovers
from pytest_infranoise.plugin.agent_options import AttemptSettings, place_of, read_attempt_settings
from pytest_infranoise.plugin.exclusion import split_patterns
from pytest_infranoise.plugin.hookspecs import HOOK_AGENT
from pytest_infranoise.plugin.notes import parse_notes
from pytest_infranoise.plugin.options import SPECS, option_value, preset_of
from pytest_infranoise.plugin.shards import Shard, parse_shard

if TYPE_CHECKING:
    from pytest_infranoise.analysis.gate_grammar import Gate


GOLD = "gold"
"""How `--infra-predictions` names the data set's own patches: what the oracle applies."""


@dataclass(frozen=True, slots=True)
class SwebenchFiles:
    """A SWE-bench data set, the predictions to verify (None for none) and where its images are."""

    instances: Path
    predictions: Path | None = None
    image: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """The options, parsed. Sizes are bytes, None is "not given".

    `control` is the id of the set that repeats the baseline, `ceiling` the declared one up to which
    a threshold must do nothing but repair (None for the default). With `until_decided`, `samples`
    is the most that may run.
    """

    sets: tuple[ParameterSet, ...]
    control: str | None
    ceiling: str | None
    samples: int
    until_decided: bool
    order: Order
    seed: int | None
    backend: str
    agent: str
    swebench: SwebenchFiles | None
    agent_env: tuple[str, ...]
    attempts: AttemptSettings
    leftovers: Leftovers
    image_build: ImageBuild
    pass_threshold: float
    excluded: tuple[str, ...]
    screen_oracle: bool
    enforcement: Enforcement
    study_directory: Path | None
    reports: tuple[Path, ...]
    shard: Shard | None
    disclosed: Mapping[str, str]
    memory_budget_bytes: int | None
    cpu_budget_cores: float | None
    admit: Admit
    clamp: bool
    exit: str
    gates: tuple["Gate", ...]
    accept_engine: bool
    dry_run: bool
    default_memory_bytes: int | None
    default_cpu_cores: float | None
    default_image: str | None
    default_timeout_seconds: float | None

    @property
    def is_single(self) -> bool:
        """Whether each task runs once, in one parameter set: there is nothing to compare."""
        return len(self.sets) == 1 and self.samples == 1


def read_settings(config: pytest.Config) -> Settings:
    """Parse every option.

    Raises:
        UsageError: one line that names the option, the value and what is accepted.
    """

    def given(name: str, parse: Any) -> Any:
        value = option_value(config, name)
        return None if value is None else parse(value, where=place_of(config, name))

    study, here = option_value(config, "study"), config.invocation_params.dir
    sets = _parameter_sets(config)
    until_decided = _until_decided(config, sets)
    repeated = with_control(sets) if option_value(config, "aa") else sets
    return Settings(
        sets=repeated,
        control=next((item.id for item in repeated if item not in sets), None),
        ceiling=_ceiling(config, sets),
        samples=given("max-samples" if until_decided else "samples", _positive_integer) or 1,
        until_decided=until_decided,
        order=_choice(config, "order"),
        seed=given("seed", _integer),
        backend=_backend(config),
        agent=_agent(config),
        swebench=_swebench(config),
        agent_env=tuple(option_value(config, "agent-env")),
        attempts=read_attempt_settings(config),
        leftovers=_choice(config, "leftovers"),
        image_build=_choice(config, "build"),
        pass_threshold=given("pass-threshold", _reward),
        excluded=split_patterns(option_value(config, "exclude")),
        screen_oracle=option_value(config, "screen-oracle"),
        enforcement=_enforcement(config),
        shard=_shard(config, until_decided),
        disclosed=parse_notes(option_value(config, "note"), where=place_of(config, "note")),
        study_directory=(here / study) if study else None,
        reports=tuple(
            config.invocation_params.dir / file for file in option_value(config, "report")
        ),
        memory_budget_bytes=given("memory-budget", units.parse_size),
        cpu_budget_cores=given("cpu-budget", units.parse_cores),
        admit=_choice(config, "admit"),
        clamp=option_value(config, "clamp"),
        exit=_choice(config, "exit"),
        gates=_gates(config, repeated),
        accept_engine=option_value(config, "accept-engine"),
        dry_run=option_value(config, "dry-run"),
        default_memory_bytes=given("default-memory", units.parse_size),
        default_cpu_cores=given("default-cpus", units.parse_cores),
        default_image=option_value(config, "default-image"),
        default_timeout_seconds=given("default-timeout", units.parse_seconds),
    )


def _gates(config: pytest.Config, sets: Sequence[ParameterSet]) -> tuple["Gate", ...]:
    """Return the gates; what reads them is loaded only where there is one."""
    texts = option_value(config, "gate")
    if not texts:
        return ()
    from pytest_infranoise.plugin.gates import parse_gates

    return parse_gates(texts, where=place_of(config, "gate"), sets=sets)


def _shard(config: pytest.Config, until_decided: bool) -> Shard | None:
    """Return the part of the study to run here; every mistake about that is said here."""
    text = option_value(config, "shard")
    if option_value(config, "retry-infra-errors") and not option_value(config, "resume"):
        raise UsageError(
            f"{place_of(config, 'retry-infra-errors')}: this goes with --infra-resume; a new study "
            "has nothing to try again"
        )
    if text is None:
        return None
    place = place_of(config, "shard")
    shard = parse_shard(text, where=place)
    if option_value(config, "seed") is None:
        raise UsageError(
            f"{place}: the shards of a study need one seed; give each of them the same "
            "--infra-seed, for example the number of the CI run"
        )
    if until_decided:
        raise UsageError(
            f"{place} cannot be combined with {place_of(config, 'until-decided')}: whether a study "
            "is decided is seen in all of its trials; use --infra-samples"
        )
    return shard


def _explicit(config: pytest.Config, name: str) -> tuple[Any, str] | None:
    """Return an option's value with its place, None where only the default speaks."""
    spec = SPECS[name]
    value = getattr(config.option, spec.dest, None) or config.getini(spec.dest)
    return (value, place_of(config, name)) if value else None


def _enforcement(config: pytest.Config) -> Enforcement:
    for name in ("oom-policy", "admit"):
        _choice(config, name)
    return choose_enforcement(
        option_value(config, "enforcement"),
        where=place_of(config, "enforcement"),
        oom_policy=_explicit(config, "oom-policy"),
        visible=_choice(config, "visible"),
        admit=_explicit(config, "admit"),
    )


def _backend(config: pytest.Config) -> str:
    name: str = option_value(config, "backend")
    check_name(name, where=place_of(config, "backend"))
    return name


def _choice(config: pytest.Config, name: str) -> Any:
    value, spec = option_value(config, name), SPECS[name]
    if value not in spec.choices:
        raise UsageError(
            f"{place_of(config, name)}: {value!r} is not one of {', '.join(spec.choices)}"
        )
    return value


def _integer(text: str, *, where: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{where}: {text!r} is not a whole number") from None


def _reward(text: str, *, where: str) -> float:
    try:
        reward = float(text)
    except ValueError:
        reward = math.nan
    if not (math.isfinite(reward) and reward > 0):
        raise UsageError(f"{where}: {text!r} is not a reward above 0; write for example 0.5")
    return reward


def _agent(config: pytest.Config) -> str:
    """Return the agent that was named, else the conftest's own: whoever wrote it wants it used."""
    named: str | None = option_value(config, "agent")
    if option_value(config, "predictions") is not None:
        if named is not None:
            raise UsageError(
                f"{place_of(config, 'agent')} cannot be combined with "
                f"{place_of(config, 'predictions')}: these are an agent's finished work; drop one"
            )
        return "oracle"
    if named is not None:
        return named
    return HOOK_AGENT if config.hook.pytest_infra_run_agent.get_hookimpls() else "oracle"


def absolute_path(config: pytest.Config, name: str) -> Path:
    """Return a path given by the user as pytest's collection writes it, symlinks kept."""
    return Path(os.path.abspath(config.invocation_params.dir / name))  # noqa: PTH100


def _swebench(config: pytest.Config) -> SwebenchFiles | None:
    """Return the data set and predictions; every mistake about which files is said here."""
    instances = option_value(config, "swebench")
    if instances is None:
        for name in ("predictions", "swebench-image"):
            if option_value(config, name) is not None:
                raise UsageError(
                    f"{place_of(config, name)}: this goes with --infra-swebench, which names the "
                    "data set"
                )
        return None
    predictions = option_value(config, "predictions")
    return SwebenchFiles(
        absolute_path(config, instances),
        None if predictions in (None, GOLD) else absolute_path(config, predictions),
        option_value(config, "swebench-image"),
    )


def _positive_integer(text: str, *, where: str) -> int:
    number = _integer(text, where=where)
    if number < 1:
        raise UsageError(f"{where}: {number} is less than 1")
    return number


def _ceiling(config: pytest.Config, sets: Sequence[ParameterSet]) -> str | None:
    """Return the declared ceiling, which must be one of the sets above the baseline."""
    name = option_value(config, "ceiling")
    if name is None:
        return None
    baseline = baseline_of(sets).id if sets else None
    allowed = [item.id for item in sets if item.id != baseline]
    if name not in allowed:
        raise UsageError(
            f"{place_of(config, 'ceiling')}: {name!r} is not a parameter set of this run that is "
            f"compared with the baseline; it has {', '.join(allowed) or 'none'}"
        )
    return str(name)


def _until_decided(config: pytest.Config, sets: Sequence[ParameterSet]) -> bool:
    """Return whether the study ends once it is decided; every mistake about that is said here."""
    most = option_value(config, "max-samples")
    if not option_value(config, "until-decided"):
        if most is None:
            return False
        raise UsageError(
            f"{place_of(config, 'max-samples')}: this goes with --infra-until-decided; a fixed "
            "number of samples is --infra-samples"
        )
    place = place_of(config, "until-decided")
    if option_value(config, "samples") is not None:
        raise UsageError(
            f"{place_of(config, 'samples')} cannot be combined with {place}: it fixes the number "
            "of samples, while --infra-max-samples bounds it; drop one of the two"
        )
    if most is None:
        raise UsageError(f"{place}: name the most samples that may run, as --infra-max-samples=12")
    if _choice(config, "order") == "sequential":
        raise UsageError(
            f"{place} cannot be combined with {place_of(config, 'order')}=sequential: it looks "
            "after whole rounds of all parameter sets; use interleaved"
        )
    if len(sets) < 2:
        raise UsageError(
            f"{place}: nothing can be decided with one parameter set; name more, as in "
            "--infra-multipliers=1,3"
        )
    return True


def _parameter_sets(config: pytest.Config) -> tuple[ParameterSet, ...]:
    def multipliers(name: str) -> Any:
        text = option_value(config, name)
        return None if text is None else parse_multipliers(text, where=place_of(config, name))

    joint = multipliers("multipliers")
    single = {name: multipliers(f"{name}-multipliers") for name in ("memory", "cpu", "timeout")}
    named = [name for name, values in single.items() if values is not None]
    if joint is not None and named:
        raise UsageError(
            f"--infra-multipliers scales memory and CPU together, so it cannot be combined with "
            f"--infra-{named[0]}-multipliers; use single-dimension options only"
        )
    if any(item.is_uncapped for item in single["timeout"] or ()):
        raise UsageError(
            f"{place_of(config, 'timeout-multipliers')}: a timeout cannot be uncapped; "
            "write a number such as 4"
        )
    if named:
        return crossed_sets(single["memory"], single["cpu"], single["timeout"])
    if joint is None and (text := preset_of(option_value(config, "enforcement"))):
        joint = parse_multipliers(text, where=place_of(config, "enforcement"))
    return joint_sets(joint or (ONE,))
