"""The install step of an agent on a real engine: once per image, nothing left, nothing lost."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sandboxes import BUSYBOX, allocation, make_task, request_for

from pytest_infranoise.agents.install import make_install
from pytest_infranoise.backends.base import LABEL, OWNER_LABEL, TRIAL_LABEL
from pytest_infranoise.backends.docker.images import IMAGE_LABEL
from pytest_infranoise.backends.docker.installing import BASE_LABEL
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.install import AgentInstall
from pytest_infranoise.model.task import ImageSource, PreparedImage

OWNER = "tests"
DOCKERFILE = f"""FROM {BUSYBOX}
RUN adduser -D worker || true
ENV FLAVOUR=mint
WORKDIR /work
USER 1234
ENTRYPOINT ["/bin/sh", "-c"]
CMD ["echo started"]
"""


@pytest.fixture
def made(docker_backend: Any, docker_image: Callable[[str], str]) -> Iterator[list[str]]:
    """The images that a test makes, which are removed after it."""
    docker_image(BUSYBOX)
    references: list[str] = []
    yield references
    for reference in references:
        docker_backend.client.api.remove_image(reference, force=True)


def install(
    backend: Any, image: PreparedImage, step: AgentInstall, made: list[str], **changes: Any
) -> tuple[PreparedImage, list[str]]:
    said: list[str] = []
    study = f"test-{uuid.uuid4().hex[:12]}"
    task = make_task(name="first", **changes)
    try:
        found = backend.install(task, image, step, said.append, study=study, owner=OWNER)
    finally:
        left = backend.client.api.containers(all=True, filters={"label": f"{LABEL}={study}"})
        assert left == []
    if found.reference not in made:
        made.append(found.reference)
    return found, said


def new_step(text: str, tmp_path: Path, files: tuple[tuple[Path, str], ...] = ()) -> AgentInstall:
    """A step that no earlier test can have left an image of."""
    return make_install(f"{text}\n: {uuid.uuid4()}", files, root=tmp_path)


def test_it_is_done_once_per_image_and_step(
    docker_backend: Any, made: list[str], tmp_path: Path
) -> None:
    base = docker_backend.prepare(make_task(), lambda line: None)
    step = new_step("mkdir -p /opt/agent; echo here >/opt/agent/file; echo $HOME", tmp_path)
    first, said = install(docker_backend, base, step, made)
    assert said == [f"first: installing the agent into {BUSYBOX}"]
    assert first.digest not in (None, base.digest)
    assert first.base_digest == base.digest
    again, said = install(docker_backend, base, step, made)
    assert (again, said) == (first, [])
    other, said = install(docker_backend, first, step, made)  # another image, another outcome
    assert other.digest != first.digest
    assert len(said) == 1


def test_what_it_installs_is_there_in_every_trial_and_the_rest_stays(
    docker_backend: Any, made: list[str], tmp_path: Path, study: str
) -> None:
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    task = make_task(name="built", image=ImageSource(build_context=tmp_path))
    base = docker_backend.prepare(task, lambda line: None)
    made.append(base.reference)
    script = tmp_path / "install.sh"
    script.write_text("#!/bin/sh\nmkdir -p /opt\nid -u >/opt/by\ncp /given/seed /opt/seed\n")
    (tmp_path / "seed").write_text("a seed")
    step = make_install("install.sh", [(tmp_path / "seed", "/given/seed")], root=tmp_path)
    image, _ = install(docker_backend, base, step, made)
    request = request_for(docker_backend, study, allocation(), task=task, image=image)
    with docker_backend.open(request) as sandbox:
        assert sandbox.read("/opt/by", max_bytes=10) == b"0\n"
        assert sandbox.read("/opt/seed", max_bytes=10) == b"a seed"
        found = sandbox.exec(["sh", "-c", "pwd; echo $FLAVOUR; ls /infranoise"])
        assert found.output == "/work\nmint\n"
    before, after = (
        docker_backend.client.api.inspect_image(item.reference) for item in (base, image)
    )
    for name in ("Entrypoint", "Cmd", "User", "WorkingDir", "Env"):
        assert after["Config"][name] == before["Config"][name], name
    assert image.user == base.user == "1234"
    labels = after["Config"]["Labels"]
    assert labels[BASE_LABEL] == base.digest
    assert labels[IMAGE_LABEL]  # by which `infranoise clean` finds it
    assert {labels.get(name) for name in (LABEL, TRIAL_LABEL, OWNER_LABEL)} == {""}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo fetching; echo 'no such package' >&2; exit 3", "the install step returned 3"),
        ("false\necho reached", "the install step returned 1"),
        ("no-such-program", "the install step returned 127"),
    ],
)
def test_a_step_that_fails_is_one_line_and_leaves_no_image(
    docker_backend: Any, made: list[str], tmp_path: Path, text: str, words: str
) -> None:
    base = docker_backend.prepare(make_task(), lambda line: None)
    step = new_step(text, tmp_path)
    for _ in range(2):  # a failure is not kept
        with pytest.raises(UsageError) as caught:
            install(docker_backend, base, step, made)
        message = str(caught.value)
        assert message.startswith(f"first: cannot install the agent into {BUSYBOX}: ")
        assert message.endswith(words)
        assert "\n" not in message
    if "package" in text:
        assert "fetching | no such package | " in message


def test_a_step_that_does_not_end_is_ended(
    docker_backend: Any, made: list[str], tmp_path: Path
) -> None:
    base = docker_backend.prepare(make_task(), lambda line: None)
    with pytest.raises(UsageError, match="no end within build_timeout of 1 s"):
        install(docker_backend, base, new_step("sleep 60", tmp_path), made, build_timeout_seconds=1)


def test_files_and_script_make_the_digest(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("one")
    (tmp_path / "script.sh").write_text("true")
    files = ((tmp_path / "file", "/given"),)
    first = make_install("true", files, root=tmp_path)
    assert make_install("true", files, root=tmp_path).digest == first.digest
    assert make_install("script.sh", files, root=tmp_path).digest == first.digest
    others = [make_install("true ", files, root=tmp_path), make_install("true", (), root=tmp_path)]
    others.append(make_install("true", ((tmp_path / "file", "/other"),), root=tmp_path))
    (tmp_path / "file").write_text("two")
    others.append(make_install("true", files, root=tmp_path))
    assert len({item.digest for item in (first, *others)}) == 5


@pytest.mark.parametrize(
    ("text", "words"), [("  ", "write a command"), ("empty.sh", "is empty"), ("bin", "be read")]
)
def test_mistakes_in_the_step(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "empty.sh").write_text("\n")
    (tmp_path / "bin").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=words):
        make_install(text, (), root=tmp_path)


def test_a_long_command_is_no_file(tmp_path: Path) -> None:
    text = "apt-get update && " * 400 + "true.sh"
    assert make_install(text, (), root=tmp_path).script == text


def test_the_local_backend_refuses_and_says_why(local_backend: Any, tmp_path: Path) -> None:
    task = make_task(image=ImageSource())
    image = local_backend.prepare(task, lambda line: None)
    step = make_install("true", (), root=tmp_path)
    with pytest.raises(UsageError, match="no images to install into; install the agent on this"):
        local_backend.install(replace(task), image, step, print, study="s", owner=OWNER)
