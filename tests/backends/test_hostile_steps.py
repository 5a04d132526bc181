"""Our own steps in a sandbox in which root has been at work: nothing in it can be trusted."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sandboxes import allocation, make_task, request_for

from pytest_infranoise.backends.base import Backend, Placement, Sandbox
from pytest_infranoise.backends.docker.backend import DockerBackend
from pytest_infranoise.backends.docker.sandbox import DockerSandbox
from pytest_infranoise.model.outcome import Ending

FAKE_SHELL = """
rm -f /bin/sh
printf '#!/bin/busybox sh\nwhile :; do busybox sleep 1; done\n' >/bin/sh
chmod +x /bin/sh
"""
NO_KILL = "rm -f /bin/sh /bin/kill; echo '#!/bin/busybox true' >/bin/sh; chmod +x /bin/sh"
DEAF = 'trap "" TERM; while :; do busybox sleep 1; done'


@pytest.fixture(params=[True, False], ids=["from the host", "by the engine"])
def container(
    request: pytest.FixtureRequest, docker_backend: Any, docker_image: Any, study: str
) -> Iterator[DockerSandbox]:
    """A container whose processes are listed on this host, or by the engine alone."""
    docker_image("busybox:infranoise-test")
    backend = DockerBackend(counters_on_host=request.param)
    wish = request_for(backend, study, allocation(), task=make_task(workdir="/app/work"))
    with backend.open(wish) as sandbox:
        assert isinstance(sandbox, DockerSandbox)
        yield sandbox
    backend.close()


def names(sandbox: DockerSandbox) -> list[str]:
    api: Any = sandbox._client.api
    rows = api.top(sandbox.container_id, ps_args="-eo pid,stat,args")["Processes"]
    return [row[2] for row in rows if not row[1].startswith("Z")]


@pytest.mark.parametrize(
    "trick", [NO_KILL, "rm -rf /bin/sh /bin/kill /bin/sleep /bin/tail /bin/rm"]
)
def test_everything_is_killed_whatever_the_shell_is(container: DockerSandbox, trick: str) -> None:
    script = f"(exec setsid busybox sh -c '{DEAF}') >/dev/null 2>&1 & {trick}"
    container.exec(["busybox", "sh", "-c", script])
    assert any("trap" in name and "TERM;" in name for name in names(container))
    container.kill_all()
    assert all("exec 3<>" in name for name in names(container))
    assert container.is_alive()


def test_a_deadline_holds_whatever_the_shell_is(container: DockerSandbox) -> None:
    container.exec(["busybox", "sh", "-c", FAKE_SHELL])
    began = time.monotonic()
    result = container.exec(["/bin/sh", "1000"], timeout_seconds=0.5)
    assert result.ending is Ending.DEADLINE
    assert time.monotonic() - began < 30  # each step of ours has its own limit
    assert container.exec(["busybox", "echo", "on"]).output == "on\n"


def test_the_holder_idles_after_all_programs_are_gone(container: DockerSandbox) -> None:
    container.exec(["busybox", "sh", "-c", "rm -rf /bin /usr"])
    container.kill_all()
    before = container.counters().cpu_seconds
    time.sleep(0.3)
    assert container.is_alive()
    if before is not None:
        after = container.counters().cpu_seconds
        assert after is not None
        assert after - before < 0.2


@pytest.mark.parametrize("trick", ["rm -rf /app", "rm -rf /app/work; echo >/app/work"])
def test_the_working_folder_is_made_again(open_sandbox: Any, trick: str) -> None:
    with open_sandbox(allocation(), task=make_task(workdir="/app/work")) as sandbox:
        sandbox.exec(["sh", "-c", trick], workdir="/")
        assert sandbox.exec(["sh", "-c", "pwd"]).output.strip() == "/app/work"


# --- files ---------------------------------------------------------------------------------------


def laid(sandbox: Sandbox, *placements: Placement) -> str:
    sandbox.place(placements)
    return sandbox.exec(["sh", "-c", "cd /t/in && find . | sort && cat f"]).output


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    folder = tmp_path / "ours"
    (folder / "sub").mkdir(parents=True)
    (folder / "f").write_text("ours")
    (folder / "sub" / "run").write_text("x")
    for path in (folder / "f", folder / "sub" / "run"):
        path.chmod(0o600)
    folder.chmod(0o700)
    return folder


TREE = ".\n./f\n./sub\n./sub/run\n"


@pytest.mark.parametrize(
    "before",
    [
        "mkdir -p /t/in/sub/deep; echo theirs >/t/in/f",
        "mkdir -p /t/in/f",
        "mkdir -p /t/in; ln -s /etc /t/in/sub; ln -s /etc/passwd /t/in/f",
        "mkdir -p /t/elsewhere; ln -s /t/elsewhere /t/in",
        "mkdir /t; echo file >/t/in",
        "mkdir /elsewhere; ln -s /elsewhere /t",
        "echo file >/t",
        "true",
    ],
)
def test_whatever_lies_there_gives_way(sandbox: Sandbox, ours: Path, before: str) -> None:
    sandbox.exec(["sh", "-c", before])
    above = Placement("/t", over="all")
    assert laid(sandbox, above, Placement("/t/in", ours)) == f"{TREE}ours"
    assert sandbox.exec(["sh", "-c", "[ -e /etc/run ] || [ -L /t ]"]).exit_code == 1


def test_what_lies_over_all_leaves_the_rest(sandbox: Sandbox, ours: Path) -> None:
    sandbox.exec(["sh", "-c", "mkdir -p /t/in/f /t/in/sub; echo kept >/t/in/sub/other"])
    found = laid(sandbox, Placement("/t/in", ours, over="all"))
    assert found == ".\n./f\n./sub\n./sub/other\n./sub/run\nours"


def test_everybody_can_read_a_public_folder(sandbox: Sandbox, ours: Path) -> None:
    public = Placement("/t/in", ours, over="image", is_public=True, script="f")
    sandbox.place([public])
    modes = sandbox.exec(["sh", "-c", "cd /t/in && stat -c %a . f sub/run"]).output.split()
    assert modes == ["755", "755", "644"]


def test_ends_of_files_in_a_folder(sandbox: Sandbox) -> None:
    sandbox.exec(["sh", "-c", "mkdir /r; cd /r; echo 12345 >a; ln -s a link; mkdir dir; mkfifo p"])
    wanted = dict.fromkeys(("a", "dir", "p", "none"), 3)
    assert sandbox.read_folder("/r", wanted) == {"a": b"45\n"}
    assert sandbox.read_folder("/no/such", wanted) == {}
    assert sandbox.read("/r/link", max_bytes=2) == b"5\n"


def test_programs_of_the_image_and_what_was_changed(container: DockerSandbox) -> None:
    assert container.program("sh") == "/bin/sh"
    assert container.program("no-such-program") is None
    assert container.altered(["/bin/sh", "/etc/passwd"]) is None
    container.exec(["busybox", "sh", "-c", FAKE_SHELL])
    assert container.altered(["/etc/passwd", "/bin/sh"]) == "/bin/sh"
    container.exec(["busybox", "rm", "-rf", "/etc"])
    assert container.altered(["/etc/passwd"]) == "/etc/passwd"
    assert container.program("sh") == "/bin/sh"  # the image is as it was


def test_local_programs_and_what_was_changed(local_backend: Backend, study: str) -> None:
    wish = request_for(local_backend, study, allocation())
    with local_backend.open(wish) as sandbox:
        shell = sandbox.program("sh")
        assert shell is not None
        assert sandbox.altered([shell]) is None
        sandbox.exec(["sh", "-c", 'rm -f "$1"', "sh", shell])
        assert sandbox.altered([shell]) == shell
        assert sandbox.program("no-such-program") is None
