"""The shape of a Harbor `task.toml`: which tables and keys there are, and of which type.

Shape only. What sizes, versions and combinations mean is decided in `harbor` and `resources`, so
numbers with a unit stay as they were written here and are parsed there, where the message can name
the fix. Tables of features that are not built yet are kept raw; `unsupported` refuses them.
"""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.task import Leftovers, RewardStrategy
from pytest_infranoise.tasks.place import Place, key_name
from pytest_infranoise.units import whole_number

NEWEST_SCHEMA = (1, 4)

WholeNumber = Annotated[
    int, BeforeValidator(lambda value: value if (n := whole_number(value)) is None else n)
]
"""Also written `3.0` or `"3"`, as the format has it."""
NetworkMode = Literal["public", "no-network", "allowlist"]
User = str | int


class Table(BaseModel):
    """A TOML table; keys that it does not declare are kept, to be warned about."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)


class HealthcheckTable(Table):
    """`[environment.healthcheck]`, and that of a step."""

    command: str | None = None
    interval_sec: Any = 5.0
    timeout_sec: Any = 30.0
    start_period_sec: Any = 0.0
    start_interval_sec: Any = 5.0
    retries: WholeNumber = 3


class EnvironmentTable(Table):
    """`[environment]`: image, resources, network."""

    build_timeout_sec: Any = 600.0
    docker_image: str | None = None
    os: str = "linux"
    cpus: Any = None
    memory: Any = None
    memory_mb: Any = None
    storage: Any = None
    storage_mb: Any = None
    gpus: WholeNumber | None = None
    gpu_types: list[str] | None = None
    tpu: Any = None
    mcp_servers: list[Any] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    skills_dir: str | None = None
    healthcheck: HealthcheckTable | None = None
    workdir: str | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] | None = None
    allow_internet: bool | None = None


class AgentTable(Table):
    """`[agent]`."""

    timeout_sec: Any = None
    user: User | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] | None = None


class VerifierTable(Table):
    """`[verifier]`."""

    timeout_sec: Any = 600.0
    env: dict[str, str] = Field(default_factory=dict)
    user: User | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: EnvironmentTable | None = None
    collect: list[Any] = Field(default_factory=list)
    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] | None = None


class SolutionTable(Table):
    """`[solution]`."""

    env: dict[str, str] = Field(default_factory=dict)


class StepTable(Table):
    """One of `[[steps]]`."""

    name: str
    agent: AgentTable = Field(default_factory=AgentTable)
    verifier: VerifierTable = Field(default_factory=VerifierTable)
    min_reward: Any = None
    healthcheck: HealthcheckTable | None = None
    artifacts: list[Any] = Field(default_factory=list)


class InfranoiseTable(Table):
    """`[metadata.infranoise]`: our own extension, which other tools ignore.

    Here an unknown key is an error: it can only be a slip that would change the treatment.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    memory_guarantee: Any = None
    memory_limit: Any = None
    cpus_guarantee: Any = None
    cpus_limit: Any = None
    leftovers: Leftovers | None = None


class MetadataTable(Table):
    """`[metadata]`: free-form but for our own table."""

    infranoise: InfranoiseTable = Field(default_factory=InfranoiseTable)


class TaskFile(Table):
    """A whole `task.toml`. `[task]` and `[metadata]` describe it for people and registries."""

    schema_version: str | None = None
    version: str | None = None
    task: dict[str, Any] = Field(default_factory=dict)
    metadata: MetadataTable = Field(default_factory=MetadataTable)
    agent: AgentTable = Field(default_factory=AgentTable)
    verifier: VerifierTable = Field(default_factory=VerifierTable)
    environment: EnvironmentTable = Field(default_factory=EnvironmentTable)
    solution: SolutionTable = Field(default_factory=SolutionTable)
    source: str | None = None
    multi_step_reward_strategy: RewardStrategy | None = None
    steps: list[StepTable] = Field(default_factory=list)
    artifacts: list[Any] = Field(default_factory=list)

    def unknown_keys(self) -> Iterator[str]:
        """Yield the name of every key that no schema version knows."""
        yield from self.model_extra or ()
        tables: dict[tuple[str | int, ...], Table | None] = {
            (name,): getattr(self, name)
            for name in ("agent", "verifier", "environment", "solution")
        }
        tables["environment", "healthcheck"] = self.environment.healthcheck
        tables |= _of_verifier(self.verifier, "verifier")
        for number, step in enumerate(self.steps):
            parts = {"agent": step.agent, "verifier": step.verifier}
            tables["steps", number] = step
            tables |= {("steps", number, name): part for name, part in parts.items()}
            tables["steps", number, "healthcheck"] = step.healthcheck
            tables |= _of_verifier(step.verifier, "steps", number, "verifier")
        for place, table in tables.items():
            for key in (table.model_extra if table is not None else None) or ():
                yield key_name((*place, key))


def unknown_words(table: Table) -> str:
    """Return what a message about a missing key says of a table's unknown keys; mostly nothing."""
    words = []
    for key in table.model_extra or ():
        near = difflib.get_close_matches(key, type(table).model_fields, n=1)
        words.append(f"{key!r} (did you mean {near[0]}?)" if near else repr(key))
    return f"; unknown here: {', '.join(words)}" if words else ""


def _of_verifier(
    table: VerifierTable, *place: str | int
) -> dict[tuple[str | int, ...], Table | None]:
    own = table.environment
    check = None if own is None else own.healthcheck
    return {(*place, "environment"): own, (*place, "environment", "healthcheck"): check}


def load(path: Path, place: Place) -> TaskFile:
    """Read and check the shape of a `task.toml`.

    Raises:
        UsageError: it cannot be read, is not TOML, or a key has the wrong type; one line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{place.file}: cannot be read: {error}") from None
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also numbers and nesting beyond Python's limits
        raise UsageError(f"{place.file}: not valid TOML: {error}") from None
    return validate(document, place)


def validate(document: Mapping[str, Any], place: Place) -> TaskFile:
    """Check the shape of a parsed `task.toml`; see `load`."""
    try:
        return TaskFile.model_validate(document)
    except ValidationError as error:
        raise UsageError(_one_line(error, place)) from None


_EXPECTED = {
    "string_type": "must be a string in quotes",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "list_type": "must be a list in square brackets",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
}


def _one_line(error: ValidationError, place: Place) -> str:
    """Return one line for the first problem, and how many other keys have one."""
    problems = error.errors(include_url=False)
    # A union reports one problem per member at a deeper path: the key is what both share.
    keys = list(dict.fromkeys(_key_of(problem["loc"]) for problem in problems))
    first = problems[0]
    more = f" (and {len(keys) - 1} more in this file)" if len(keys) > 1 else ""
    return f"{place.file}: {keys[0]}: {_explain(first)}{more}"


def _key_of(location: tuple[str | int, ...]) -> str:
    return key_name(location[:-1] if _is_user(location) else location)


def _is_user(location: tuple[str | int, ...]) -> bool:
    """Whether a problem is with a member of the union that a user is."""
    return location[-2:-1] == ("user",) and location[-1] in ("str", "int")


def _explain(problem: Any) -> str:
    kind, value, location = problem["type"], problem["input"], problem["loc"]
    if kind == "extra_forbidden":
        known = ", ".join(InfranoiseTable.model_fields)
        return f"unknown key; this table knows {known}"
    if kind == "literal_error":
        return f"must be {problem['ctx']['expected']}, not {_short(value)}"
    if _is_user(location):
        return f"must be a user's name or number, not {_short(value)}"
    message = problem["msg"]
    expected = _EXPECTED.get(kind, message[:1].lower() + message[1:])
    return f"{expected}, not {_short(value)}"


def _short(value: object) -> str:
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 60 else text[:57] + "..."
