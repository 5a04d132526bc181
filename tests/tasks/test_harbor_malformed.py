"""Every mistake is one line that names the file, the key and the fix."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_maker import MEMORY, TaskMaker, error_of

from pytest_infranoise.errors import UsageError
from pytest_infranoise.tasks.harbor import read_task
from pytest_infranoise.tasks.place import Place
from pytest_infranoise.tasks.schema import TaskFile, validate

BAND = f"{MEMORY}[metadata.infranoise]\n"
HEALTH = f"{MEMORY}[environment.healthcheck]\n"
STEP = f"{MEMORY}[[steps]]\nname = 'one'\n"


ONE_STEP = {"steps/one/instruction.md": "One.\n"}

WRONG_VALUES = [
    ("[environment]\nmemory = '2Q'", "[environment] memory", "not a size"),
    ("[environment]\nmemory = ''", "[environment] memory", "not a size"),
    (f"[environment]\nmemory = '{'9' * 5000}G'", "[environment] memory", "not a size"),
    ("[environment]\nmemory = '0G'", "[environment] memory", "greater than zero"),
    ("[environment]\nmemory = '-1G'", "[environment] memory", "not a size"),
    ("[environment]\nmemory = true", "[environment] memory", "not a size"),
    ("[environment]\nmemory = ['2G']", "[environment] memory", "not a size"),
    ("[environment]\nmemory = nan", "[environment] memory", "not a size"),
    ("[environment]\nmemory = 2048", "[environment] memory", "too little"),
    ("[environment]\nmemory = '2048'", "[environment] memory", "too little"),
    ("[environment]\nmemory_mb = '2G'", "[environment] memory_mb", "is written memory = '2G'"),
    ("[environment]\nmemory_mb = 511.5", "[environment] memory_mb", "write 512"),
    ("[environment]\nmemory_mb = nan", "[environment] memory_mb", "whole number of MB"),
    ("[environment]\nmemory_mb = '512.5'", "[environment] memory_mb", "whole number of MB"),
    ("[environment]\nmemory_mb = 0", "[environment] memory_mb", "whole number of MB"),
    ("[environment]\nmemory_mb = true", "[environment] memory_mb", "whole number of MB"),
    ("[environment]\nmemory='2G'\nmemory_mb=2000", "[environment] memory_mb", "disagrees"),
    (f"{MEMORY}cpus = 0", "[environment] cpus", "not a number of CPU cores"),
    (f"{MEMORY}cpus = -1", "[environment] cpus", "not a number of CPU cores"),
    (f"{MEMORY}cpus = 'many'", "[environment] cpus", "not a number of CPU cores"),
    (f"{MEMORY}cpus = inf", "[environment] cpus", "not a number of CPU cores"),
    (f"{MEMORY}cpus = true", "[environment] cpus", "not a number of CPU cores"),
    (f"{MEMORY}cpus = [1]", "[environment] cpus", "not a number of CPU cores"),
    (f"{MEMORY}cpus = {'9' * 400}", "[environment] cpus", "not a number of CPU cores"),
    (f"{MEMORY}gpus = 'one'", "[environment] gpus", "must be a whole number"),
    (f"{MEMORY}docker_image = 3", "[environment] docker_image", "must be a string"),
    (f"{MEMORY}docker_image = ' '", "[environment] docker_image", "empty"),
    (f"{MEMORY}workdir = 'app'", "[environment] workdir", "absolute path"),
    (f"{MEMORY}env = 'A=1'", "[environment] env", "must be a table"),
    (f"{MEMORY}env = {{ A = 1 }}", "[environment] env.A", "must be a string"),
    (f"{MEMORY}env = {{ A = '${{NOPE}}' }}", "[environment] env.A", "NOPE is not set"),
    (f"{MEMORY}env = {{ 'A=B' = 'x' }}", "[environment] env.A=B", "not a name"),
    (f'{MEMORY}env = {{ A = "\\u0000" }}', "[environment] env.A", "not a name"),
    (f"{MEMORY}[verifier]\nenv = {{ K = '${{NOPE}}' }}", "[verifier] env.K", "NOPE is not set"),
    (f"{MEMORY}[solution]\nenv = {{ K = '${{NOPE}}' }}", "[solution] env.K", "NOPE is not set"),
    (f"{MEMORY}build_timeout_sec = 0", "[environment] build_timeout_sec", "number of seconds"),
    (f"{MEMORY}network_mode = 'none'", "[environment] network_mode", "'public', 'no-network'"),
    (f"{MEMORY}allow_internet = 'no'", "[environment] allow_internet", "true or false"),
    (
        f"{MEMORY}network_mode = 'public'\nallow_internet = false",
        "[environment] network_mode",
        "disagrees",
    ),
    (f"{MEMORY}allowed_hosts = ['a']", "[environment] allowed_hosts", "only valid with"),
    (f"{MEMORY}[agent]\nallowed_hosts = ['a']", "[agent] allowed_hosts", "only valid with"),
    (f"{MEMORY}[agent]\ntimeout_sec = 'soon'", "[agent] timeout_sec", "number of seconds"),
    (f"{MEMORY}[agent]\ntimeout_sec = -1", "[agent] timeout_sec", "number of seconds"),
    (f"{MEMORY}[agent]\ntimeout_sec = true", "[agent] timeout_sec", "number of seconds"),
    (f"{MEMORY}[agent]\nuser = 1.5", "[agent] user", "name or number"),
    (f"{MEMORY}[verifier]\ntimeout_sec = inf", "[verifier] timeout_sec", "number of seconds"),
    (f"{MEMORY}[verifier]\nuser = []", "[verifier] user", "name or number"),
    (f"{MEMORY}[verifier]\nenvironment_mode = 'own'", "[verifier] environment_mode", "'shared'"),
    (f"{BAND}memory_guarantee = '1G'", "[metadata.infranoise] memory_guarantee", "memory_limit"),
    (f"{BAND}memory_limit = '256M'", "[metadata.infranoise] memory_guarantee", "memory_limit"),
    (f"{BAND}memory_limit = '2Q'", "[metadata.infranoise] memory_limit", "not a size"),
    (f"{BAND}cpus_limit = 0", "[metadata.infranoise] cpus_limit", "CPU cores"),
    (
        f"{BAND}cpus_guarantee = 2\ncpus_limit = 1",
        "[metadata.infranoise] cpus_guarantee",
        "cpus_limit",
    ),
    (f"{BAND}leftovers = 'drop'", "[metadata.infranoise] leftovers", "'keep' or 'kill'"),
    (f"{BAND}memory_limt = '1G'", "[metadata.infranoise] memory_limt", "unknown key"),
    ("[metadata]\ninfranoise = 1", "[metadata] infranoise", "must be a table"),
    ("environment = 3", "environment", "must be a table"),
    ("[[environment]]", "environment", "must be a table"),
    ("agent = 'oracle'", "agent", "must be a table"),
    ("task = 'name'", "task", "must be a table"),
    ("steps = 'one'", "steps", "must be a list"),
    (f"{MEMORY}storage = '10Q'", "[environment] storage", "not a size"),
    (f"{MEMORY}storage_mb = 'ten'", "[environment] storage_mb", "whole number of MB"),
    (f"{MEMORY}storage = '10G'\nstorage_mb = 10000", "[environment] storage_mb", "disagrees"),
    (f"{MEMORY}healthcheck = 'true'", "[environment] healthcheck", "must be a table"),
    (f"{MEMORY}healthcheck = {{}}", "[environment] healthcheck.command", "missing"),
    (f"{HEALTH}command = ' '", "[environment] healthcheck.command", "missing"),
    (f"{HEALTH}command = 3", "[environment] healthcheck.command", "must be a string"),
    (f"{HEALTH}command = 'x'\nretries = 0", "[environment] healthcheck.retries", "less than 1"),
    (f"{HEALTH}command = 'x'\nretries = 1.5", "[environment] healthcheck.retries", "whole number"),
    (f"{HEALTH}command = 'x'\ntimeout_sec = 0", "[environment] healthcheck.timeout_sec", "seconds"),
    (f"{HEALTH}command = 'x'\ninterval_sec = -1", "[environment] healthcheck.interval_sec", "of s"),
    (
        f"{HEALTH}command = 'x'\nstart_period_sec = false",
        "[environment] healthcheck.start_period_sec",
        "seconds",
    ),
    (f"{MEMORY}[[steps]]", "[[steps]] #1 name", "field required"),
    (f"{MEMORY}[[steps]]\nname = ''", "[[steps]] #1 name", "cannot be a folder's name"),
    (f"{MEMORY}[[steps]]\nname = '../x'", "[[steps]] #1 name", "cannot be a folder's name"),
    (f"{MEMORY}[[steps]]\nname = 'x.'", "[[steps]] #1 name", "cannot be a folder's name"),
    (f"{STEP}[[steps]]\nname = 'ONE'", "[[steps]] #2 name", "is step #1 already"),
    (f"{STEP}min_reward = 'high'", "[[steps]] #1 min_reward", "not a number"),
    (f"{STEP}min_reward = true", "[[steps]] #1 min_reward", "not a number"),
    (f"{STEP}min_reward = {{ a = nan }}", "[[steps]] #1 min_reward", "not a number"),
    (f"{STEP}agent.user = 1.5", "[[steps]] #1 agent.user", "name or number"),
    (f"{STEP}agent.timeout_sec = 'soon'", "[[steps]] #1 agent.timeout_sec", "number of seconds"),
    (f"{STEP}verifier.timeout_sec = 0", "[[steps]] #1 verifier.timeout_sec", "number of seconds"),
    (f"{STEP}verifier.env = {{ K = '${{NOPE}}' }}", "[verifier] env.K", "NOPE is not set"),
    (f"{STEP}agent.allowed_hosts = ['a']", "[[steps]] #1 agent.allowed_hosts", "only valid with"),
    (f"{STEP}healthcheck = {{}}", "[[steps]] #1 healthcheck.command", "missing"),
    ("multi_step_reward_strategy = 'best'", "multi_step_reward_strategy", "'mean' or 'final'"),
    ("version = 1.0", "version", "must be a string"),
    (f"version = '2.0'\n{MEMORY}", "version", "1.0 to 1.4"),
    (f"schema_version = 'one'\n{MEMORY}", "schema_version", "1.0 to 1.4"),
    (f"version = '1.0'\nschema_version = '1.4'\n{MEMORY}", "version", "disagrees"),
]


@pytest.mark.parametrize(("toml", "key", "text"), WRONG_VALUES)
def test_a_wrong_value(make_task: TaskMaker, toml: str, key: str, text: str) -> None:
    message = error_of(make_task(toml, files=ONE_STEP))
    assert message.startswith(f"spike/task.toml: {key}: ")
    assert text in message


@pytest.mark.parametrize(
    "toml",
    [
        "a = ",
        "[environment",
        "a = 1\na = 2",
        "\x00",
        "[a]\n[a]",
        pytest.param("a = " + "9" * 5000, id="number beyond limits"),
        pytest.param("a = " + "[" * 5000, id="nesting beyond limits"),
    ],
)
def test_what_is_not_toml(make_task: TaskMaker, toml: str) -> None:
    assert error_of(make_task(toml)).startswith("spike/task.toml: not valid TOML: ")


def test_a_file_that_is_not_text(make_task: TaskMaker) -> None:
    directory = make_task()
    (directory / "task.toml").write_bytes(b"\xff\xfe")
    assert error_of(directory).startswith("spike/task.toml: cannot be read: ")


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "1.3", "1.4"])
def test_missing_memory_names_file_key_and_option(make_task: TaskMaker, version: str) -> None:
    message = error_of(make_task(f'schema_version = "{version}"\n[environment]\ncpus = 1\n'))
    assert message.startswith("spike/task.toml: [environment] memory_mb: not set")
    assert "infra_default_memory" in message
    assert ("2048M" in message) == (version in {"1.0", "1.1"})
    assert "unknown here" not in message


def test_several_mistakes_are_counted(make_task: TaskMaker) -> None:
    message = error_of(make_task("version = 1.0\n[agent]\nuser = 1.5\n[environment]\nenv = 3\n"))
    assert message.startswith("spike/task.toml: version: must be a string in quotes, not 1.0")
    assert message.endswith("(and 2 more in this file)")


@pytest.mark.parametrize(
    ("missing", "text"),
    [
        ("instruction.md", "needs an instruction"),
        ("tests/test.sh", "cannot be verified"),
        ("environment/Dockerfile", "docker_image"),
        ("task.toml", "cannot be read"),
    ],
)
def test_a_missing_file(make_task: TaskMaker, missing: str, text: str) -> None:
    message = error_of(make_task(files={missing: None}))
    assert message.startswith(f"spike/{missing}: ")
    assert text in message


@pytest.mark.parametrize(
    ("toml", "place"),
    [
        (f"{MEMORY}os = 'windows'", "task.toml: [environment] os"),
        (f"{MEMORY}gpus = 1", "task.toml: [environment] gpus"),
        (f"{MEMORY}tpu = {{ type = 'v6e' }}", "task.toml: [environment] tpu"),
        (
            f"{MEMORY}[[environment.mcp_servers]]\nname = 'x'",
            "task.toml: [environment] mcp_servers",
        ),
        (f"{MEMORY}skills_dir = '/skills'", "task.toml: [environment] skills_dir"),
        (
            f"{MEMORY}network_mode = 'allowlist'\nallowed_hosts = ['a.example']",
            "task.toml: [environment] network_mode",
        ),
        (f"{MEMORY}[agent]\nnetwork_mode = 'no-network'", "task.toml: [agent] network_mode"),
        (
            f"{MEMORY}network_mode = 'no-network'\n[verifier]\nnetwork_mode = 'public'",
            "task.toml: [verifier] network_mode",
        ),
        (f"{MEMORY}[verifier]\nnetwork_mode = 'allowlist'", "task.toml: [verifier] network_mode"),
        (
            f"{MEMORY}[verifier.environment]\ngpus = 1",
            "task.toml: [verifier] environment.gpus",
        ),
        (
            f"{MEMORY}[verifier.environment]\nnetwork_mode = 'allowlist'",
            "task.toml: [verifier] environment.network_mode",
        ),
        (
            f"{MEMORY}[agent]\nnetwork_mode = 'no-network'\n[verifier]\nnetwork_mode = 'public'",
            "task.toml: [verifier] network_mode",
        ),
        (
            f"{MEMORY}[[steps]]\nname = 'one'\nverifier.environment.os = 'windows'",
            "task.toml: [[steps]] #1 verifier.environment.os",
        ),
        (
            f"{MEMORY}[[steps]]\nname = 'one'\nagent.network_mode = 'no-network'",
            "task.toml: [[steps]] #1 agent.network_mode",
        ),
        (
            f"{MEMORY}[[steps]]\nname = 'one'\nverifier.network_mode = 'allowlist'",
            "task.toml: [[steps]] #1 verifier.network_mode",
        ),
    ],
)
def test_what_is_not_built_is_refused_by_name(make_task: TaskMaker, toml: str, place: str) -> None:
    message = error_of(make_task(toml))
    assert message.startswith(f"spike/{place}: ")
    assert "not supported yet" in message


@pytest.mark.parametrize(
    "name",
    [
        "tests/test.sh",
        "solution/solve.sh",
        "steps/one/tests/test.sh",
        "steps/one/solution/solve.sh",
    ],
)
def test_a_script_that_its_own_folder_leaves_out(make_task: TaskMaker, name: str) -> None:
    folder = name.rpartition("/")[0]
    files = {**ONE_STEP, name: "true\n", f"{folder}/.harborignore": "*.sh\n"}
    message = error_of(make_task(f"{MEMORY}[[steps]]\nname = 'one'\n", files=files))
    assert message.startswith(f"spike/{name}: left out by .harborignore")


@pytest.mark.parametrize("name", ["trajectory.json"])
def test_files_that_are_not_supported_are_refused(make_task: TaskMaker, name: str) -> None:
    message = error_of(make_task(files={name: "{}"}))
    assert message.startswith(f"spike/{name}: ")
    assert "not supported yet" in message


toml_values = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text() | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KEYS = sorted(TaskFile.model_fields)


@given(st.dictionaries(st.sampled_from(KEYS) | st.text(), toml_values, max_size=4))
def test_any_document_is_read_or_refused_in_one_line(document: dict[str, object]) -> None:
    message = ""
    try:
        validate(document, Place("task.toml"))
    except UsageError as error:
        message = str(error)
    assert not message or re.fullmatch(r"task\.toml: [^\n]+: [^\n]+", message)


@pytest.mark.parametrize(
    ("text", "missing", "words"),
    [
        ("[environment]\nmemroy = '32M'", None, "unknown here: 'memroy' (did you mean memory?)"),
        (
            f"{MEMORY}docker_imgae = 'x'\nzzz = 1",
            "environment/Dockerfile",
            "unknown here: 'docker_imgae' (did you mean docker_image?), 'zzz'",
        ),
    ],
)
def test_a_misspelt_key_is_named_where_the_right_one_is_missing(
    make_task: TaskMaker, text: str, missing: str | None, words: str
) -> None:
    directory = make_task(text)
    if missing is not None:
        (directory / missing).unlink()
    assert error_of(directory).endswith(f"; {words}")


@pytest.mark.parametrize("name", ["tests/test.sh", "solution/solve.sh"])
@pytest.mark.parametrize("head", ["#!/bin/bash\r\n", "echo one\r\n"])
def test_line_ends_of_windows_are_named(make_task: TaskMaker, name: str, head: str) -> None:
    directory = make_task()
    (directory / name).write_bytes(f"{head}exit 0\r\n".encode())
    message = error_of(directory)
    assert message.startswith(f"spike/{name}: its lines end in CRLF")
    assert message.endswith(f"sed -i 's/\\r$//' spike/{name}")


def test_a_solution_that_is_not_used_may_have_any_line_ends(make_task: TaskMaker) -> None:
    directory = make_task()
    (directory / "solution" / "solve.sh").write_bytes(b"#!/bin/sh\r\n")
    read_task(directory, host_environment={}, uses_solution=False)
