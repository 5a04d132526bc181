"""`infranoise clean`: remove what dead runs left behind, and nothing that is in use."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest_infranoise.cli.exits import Exit
from pytest_infranoise.cli.leftovers import (
    Found,
    Life,
    flag_folders,
    removable,
    someone_reserves,
)
from pytest_infranoise.cli.output import print_lines
from pytest_infranoise.errors import BackendUnavailableError
from pytest_infranoise.report.model import Line, one_line

if TYPE_CHECKING:
    from docker import DockerClient


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (
        "Remove containers (with the networks and volumes of tasks that have several), local "
        "sandboxes and flag folders whose run is dead. What belongs to a living process, or to "
        "one on another host, is left alone."
    )
    parser.epilog = """\
example:
  infranoise clean --dry-run
"""
    add = parser.add_argument
    add("--study", metavar="ID", help="only what belongs to this study")
    add("--images", action="store_true", help="also the images that runs have built")
    add("--dry-run", action="store_true", help="name what would go, and remove nothing")


def run(arguments: Namespace) -> int:
    """Look, remove, and print both."""
    with _engine() as (client, problem):
        if problem:
            print_lines([Line(f"docker: not looked at: {problem}", "warn")])
        found = _found(client, with_images=arguments.images)
        going, staying = removable(found, arguments.study)
        failed = sum(not _remove(item, arguments.dry_run) for item in going)
    for item in staying:
        print_lines([Line(f"left {_words(item)}", "dim")])
    removed = f"{'would remove' if arguments.dry_run else 'removed'} {len(going) - failed}"
    left = len(staying) + failed
    print_lines([Line(f"{removed}, left {left}", "bold")])
    return Exit.FINDING if failed or (problem and _is_named()) else Exit.FINE


def _found(client: "DockerClient | None", *, with_images: bool) -> list[Found]:
    from pytest_infranoise.backends.docker.failures import engine_calls
    from pytest_infranoise.cli.leftovers_ceilings import ceilings
    from pytest_infranoise.cli.leftovers_local import sandboxes

    found: list[Found] = []
    if client is not None:
        from pytest_infranoise.cli.leftovers_docker import containers, shared

        with engine_calls("looking for leftovers"):
            found += containers(client)
            found += shared(client)  # after the containers that use them
    try:
        found += sandboxes()
    except BackendUnavailableError as error:
        print_lines([Line(f"local: not looked at: {one_line(str(error))}", "warn")])
    found += ceilings()
    is_busy = someone_reserves() or any(item.life is not Life.DEAD for item in found)
    found += flag_folders(is_busy)
    if client is not None and with_images:
        from pytest_infranoise.cli.leftovers_docker import images

        with engine_calls("looking for images"):
            found += images(client, is_busy)
    return found


def _remove(item: Found, is_dry_run: bool) -> bool:
    """Remove one thing and say so; returns whether it is gone, or would be."""
    from pytest_infranoise.backends.docker.failures import TRANSPORT_ERRORS, explain

    if is_dry_run:
        print_lines([Line(f"would remove {_words(item)}")])
        return True
    try:
        item.remove()
    except (*TRANSPORT_ERRORS, OSError) as error:
        print_lines([Line(f"cannot remove {_words(item)}: {explain(error)}", "bad")])
        return False
    print_lines([Line(f"removed {_words(item)}")])
    return True


def _words(item: Found) -> str:
    study = "" if item.study is None else f"study {one_line(item.study, 60)}, "
    return f"{item.kind} {one_line(item.name, 120)} ({study}{item.reason})"


@contextmanager
def _engine() -> Iterator[tuple["DockerClient | None", str]]:
    """Connect to the engine that a run would use, or say why there is none."""
    from pytest_infranoise.backends.docker.connection import connect

    try:
        client = connect(os.environ).client
    except BackendUnavailableError as error:
        yield None, one_line(str(error), 400)
        return
    try:
        yield client, ""
    finally:
        client.close()


def _is_named() -> bool:
    from pytest_infranoise.backends.docker.connection import is_explicit

    return is_explicit(os.environ)
