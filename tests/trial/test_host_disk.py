"""Whose deed a full disk of the host is, and where nobody can tell."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_infranoise.backends.base import EngineInfo
from pytest_infranoise.model.resources import Capacity
from pytest_infranoise.trial.host_disk import FullDisk, HostDisk, names_full_disk
from pytest_infranoise.units import MIB


def engine(**details: object) -> EngineInfo:
    return EngineInfo("test", "test", "test", None, "hard limit", Capacity(MIB, 1), details=details)


class Disk:
    """What `statvfs` says, in MiB."""

    def __init__(self) -> None:
        self.free, self.files = 100, 1000

    def __call__(self, folder: object) -> SimpleNamespace:
        return SimpleNamespace(f_bavail=self.free, f_frsize=MIB, f_files=1000, f_favail=self.files)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    found = Disk()
    monkeypatch.setattr(os, "statvfs", found)
    return found


class Sandbox:
    def __init__(self, held_mib: int | None) -> None:
        self.held_mib = held_mib

    def held_disk_bytes(self) -> int | None:
        return None if self.held_mib is None else self.held_mib * MIB


@pytest.mark.parametrize(
    ("before", "held", "filled_by"),
    [
        (100, [0], "others"),
        (100, [49], "others"),
        (100, [50], "trial"),
        (100, [30, 30], "trial"),  # its own sandbox and that of its verifier
        (100, [None], "unknown"),
        (100, [10, None], "unknown"),
        (0, [10], "others"),  # it was full before the trial began
        (0, [None], "others"),
    ],
)
def test_whose_deed_a_full_disk_is(
    disk: Disk, tmp_path: Path, before: int, held: list[int | None], filled_by: str
) -> None:
    disk.free = before
    watched = HostDisk(engine(base=str(tmp_path)))
    disk.free = 0
    found = watched.look(map(Sandbox, held))
    assert found is not None
    assert found.filled_by == filled_by


def test_room_that_others_make_meanwhile_counts_as_free(disk: Disk, tmp_path: Path) -> None:
    disk.free = 0
    watched = HostDisk(engine(base=str(tmp_path)))
    disk.free = 100  # a neighbour has ended
    assert watched.look([]) is None
    disk.free = 0
    found = watched.look([Sandbox(90)])
    assert found is not None
    assert found.filled_by == "trial"


def test_a_sandbox_that_cannot_say_what_it_holds_is_unknown(disk: Disk, tmp_path: Path) -> None:
    watched = HostDisk(engine(base=str(tmp_path)))
    disk.free = 0
    assert watched.look([object()]) == FullDisk(None, "unknown")


def test_a_disk_without_room_for_another_file_is_full(disk: Disk, tmp_path: Path) -> None:
    watched = HostDisk(engine(base=str(tmp_path)))
    assert watched.look([]) is None
    disk.files = 0
    assert watched.look([]) == FullDisk(0, "others")


@pytest.mark.parametrize(
    ("changes", "is_seen"),
    [
        ({}, True),
        ({"endpoint": "tcp://elsewhere:2375"}, False),
        ({"kernel_version": "another machine's"}, False),
        ({"storage_folder": "/no/such/folder"}, False),
        ({"storage_folder": None}, False),
    ],
)
def test_only_the_disk_of_an_engine_on_this_host_is_seen(
    disk: Disk, tmp_path: Path, changes: dict[str, object], is_seen: bool
) -> None:
    here = {
        "endpoint": "unix:///var/run/docker.sock",
        "kernel_version": os.uname().release,
        "storage_folder": str(tmp_path),
    }
    watched = HostDisk(engine(**{**here, **changes}))
    disk.free = 0
    assert (watched.look([]) is not None) == is_seen


def test_what_names_a_full_disk() -> None:
    assert names_full_disk("dd: error writing 'x': No space left on device")
    assert not names_full_disk("no space")
