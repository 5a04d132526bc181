"""The parts of the local backend that need no sandbox."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from sandboxes import allocation

from pytest_infranoise.backends.dockerfile import read_dockerfile
from pytest_infranoise.backends.local import state as state_module
from pytest_infranoise.backends.local.capacity import own_capacity
from pytest_infranoise.backends.local.cgroups import (
    HOST_LEAF,
    CgroupParent,
    TrialCgroup,
)
from pytest_infranoise.backends.local.hostmounts import aliases, mount_of, read_mounts
from pytest_infranoise.backends.local.inside import confine, wire
from pytest_infranoise.backends.local.layers import (
    Ignored,
    build_layer,
    layer_digest,
    layer_items,
)
from pytest_infranoise.backends.local.limits import cpu_shares, cpu_weight
from pytest_infranoise.backends.local.masks import Masks
from pytest_infranoise.backends.local.state import (
    RunFolder,
    SandboxState,
    end_process,
    read_state,
    start_time,
    write_state,
)
from pytest_infranoise.backends.local.view import remove_tree
from pytest_infranoise.errors import BackendUnavailableError, UsageError
from pytest_infranoise.units import MIB

MOUNTINFO = """\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 0:5 / /proc rw - proc proc rw
23 21 8:2 / /home rw - xfs /dev/sda2 rw
24 21 8:1 /srv/tasks /mnt/with\\040space rw - ext4 /dev/sda1 rw
25 21 0:6 / /old rw - tmpfs tmpfs rw
26 25 8:3 / /old/inner rw - ext4 /dev/sda3 rw
27 21 8:4 / /old rw - btrfs /dev/sda4 rw
"""


# --- mounts and masks ----------------------------------------------------------------------------


def test_mounts_that_others_hide_are_not_seen() -> None:
    mounts = read_mounts(MOUNTINFO)
    assert [(str(mount.point), mount.kind) for mount in mounts] == [
        ("/", "ext4"),
        ("/home", "xfs"),
        ("/mnt/with space", "ext4"),
        ("/old", "btrfs"),
        ("/proc", "proc"),
    ]
    assert [mount.kind for mount in mounts if not mount.holds_files] == ["proc"]


@pytest.mark.parametrize(
    ("path", "point"),
    [("/etc", "/"), ("/home/me", "/home"), ("/homely", "/"), ("/home", "/home")],
)
def test_mount_of(path: str, point: str) -> None:
    assert mount_of(Path(path), read_mounts(MOUNTINFO)).point == Path(point)


@pytest.mark.parametrize(
    ("path", "places"),
    [
        ("/srv/tasks/one", {"/srv/tasks/one", "/mnt/with space/one"}),
        ("/mnt/with space", {"/mnt/with space", "/srv/tasks"}),
        ("/srv", {"/srv", "/mnt/with space"}),
        ("/home/me", {"/home/me"}),
    ],
)
def test_every_place_that_shows_a_folder(path: str, places: set[str]) -> None:
    assert {str(place) for place in aliases(Path(path), read_mounts(MOUNTINFO))} == places


@pytest.mark.parametrize(
    ("kind", "fits"),
    [("ext4", True), ("xfs", True), ("btrfs", True), ("tmpfs", False), ("overlay", False),
     ("nfs4", False), ("fuse.sshfs", False)],
)  # fmt: skip
def test_which_file_systems_take_upper_layers(kind: str, fits: bool) -> None:
    (mount,) = read_mounts(f"21 1 8:1 / / rw - {kind} x rw\n")
    assert mount.can_hold_layers is fits


def test_masks_are_resolved_and_not_nested(tmp_path: Path) -> None:
    base = Path("/var/tmp") / f"infranoise-test-{os.getpid()}"
    (base / "tasks" / "one").mkdir(parents=True)
    (base / "secret").write_text("x", encoding="utf-8")
    (base / "link").symlink_to("tasks")
    try:
        paths = [base / "link", base / "tasks" / "one", base / "secret", base / "none", Path("/")]
        masks = Masks.of(paths, read_mounts())
        assert masks == Masks((base / "tasks",), (base / "secret",))
        assert masks.hide(base / "tasks" / "one" / "x")
        assert masks.hide(Path("/tmp/anything"))
        assert not masks.hide(base)
    finally:
        remove_tree(base)


# --- cgroups -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cores", "shares", "weight"),
    [(1.0, 1024, 39), (0.25, 256, 10), (0.001, 2, 1), (1000.0, 262144, 10000)],
)
def test_weights_as_docker_computes_them(cores: float, shares: int, weight: int) -> None:
    assert (cpu_shares(cores), cpu_weight(cores)) == (shares, weight)


@pytest.fixture
def plain_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a plain folder stand for a cgroup, whose files exist as soon as it does."""
    make = Path.mkdir

    def mkdir(self: Path, *arguments: object, **options: object) -> None:
        make(self, *arguments, **options)  # type: ignore[arg-type]
        for name in ("memory.memsw.limit_in_bytes", "memory.swap.max", "memory.swappiness"):
            (self / name).touch()

    monkeypatch.setattr(Path, "mkdir", mkdir)


@pytest.mark.usefixtures("plain_files")
def test_settings_on_version_1(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("memory", "cpu", "pids")}
    given = allocation(96 * MIB, 0.5, memory_guarantee_bytes=32 * MIB, cpu_guarantee_cores=0.25)
    TrialCgroup(1, folders).make(given)
    read = {name: (tmp_path / name).read_text() for name in [
        "memory/memory.limit_in_bytes", "memory/memory.memsw.limit_in_bytes",
        "memory/memory.soft_limit_in_bytes", "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us",
        "cpu/cpu.shares"]}  # fmt: skip
    assert list(map(int, read.values())) == [96 * MIB, 96 * MIB, 32 * MIB, 50_000, 100_000, 256]


@pytest.mark.usefixtures("plain_files")
def test_settings_on_version_2(tmp_path: Path) -> None:
    folder = tmp_path / "trial"
    given = allocation(96 * MIB, 0.5, memory_guarantee_bytes=32 * MIB, cpu_guarantee_cores=1.0)
    TrialCgroup(2, dict.fromkeys(("memory", "cpu", "pids"), folder)).make(given)
    names = ("memory.max", "memory.swap.max", "memory.low", "cpu.max", "cpu.weight")
    values = [(folder / name).read_text() for name in names]
    assert values == [str(96 * MIB), "0", str(32 * MIB), "50000 100000", "39"]


@pytest.mark.usefixtures("plain_files")
def test_uncapped_sets_no_limit(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("memory", "cpu")}
    TrialCgroup(1, folders).make(allocation(None, None))
    assert not (folders["memory"] / "memory.limit_in_bytes").exists()
    assert not (folders["cpu"] / "cpu.cfs_quota_us").exists()


def test_parent_names_the_trials_cgroup(tmp_path: Path) -> None:
    parent = CgroupParent(2, {"memory": tmp_path, "cpu": tmp_path}, local_events=True)
    child = parent.child("infranoise-x")
    assert child.unique_folders == (tmp_path / "infranoise-x",)
    assert child.paths.cpuacct_path == child.paths.memory_path == tmp_path / "infranoise-x"
    assert child.paths.local_events


def fake_v2(root: Path, own: str, cgroups: dict[str, dict[str, str]]) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(f"0::{own}\n", encoding="ascii")
    line = "30 21 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    (root / "proc/self/mountinfo").write_text(line, encoding="ascii")
    for name, files in cgroups.items():
        folder = root / "sys/fs/cgroup" / name.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        defaults = {"cgroup.procs": "", "cgroup.subtree_control": "", "cgroup.type": "domain"}
        for file, text in {**defaults, **files}.items():
            (folder / file).write_text(text, encoding="ascii")


def test_version_2_takes_the_nearest_cgroup_that_can_hand_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_infranoise.backends.local import cgroups

    every = {"cgroup.controllers": "cpu memory pids", "cgroup.subtree_control": "cpu memory pids"}
    fake_v2(
        tmp_path,
        "/user.slice/app.slice/term.scope",
        {
            "/": every,
            "/user.slice": every,
            "/user.slice/app.slice": {**every},
            "/user.slice/app.slice/term.scope": {
                "cgroup.controllers": "memory pids", "cgroup.procs": "1"},
        },
    )  # fmt: skip
    monkeypatch.setattr(cgroups, "_works", lambda parent: True)
    found = cgroups.find_parent(root=tmp_path)
    assert found is not None
    assert found.folders["memory"] == tmp_path / "sys/fs/cgroup/user.slice/app.slice"
    assert found.limits_cpu
    assert found.leaf is None


def test_version_2_leaves_a_cgroup_that_is_all_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_infranoise.backends.local import cgroups

    files = {"cgroup.controllers": "cpu memory pids", "cgroup.procs": "17\n18"}
    fake_v2(tmp_path, "/", {"/": files})
    own = tmp_path / "sys/fs/cgroup"
    moved: list[Path] = []

    def move(source: Path, target: Path) -> None:
        moved.append(target)
        (source / "cgroup.subtree_control").write_text("cpu memory pids", encoding="ascii")

    monkeypatch.setattr(cgroups, "_move_all", move)
    monkeypatch.setattr(cgroups, "_works", lambda parent: True)
    found = cgroups.find_parent(root=tmp_path)
    assert moved == [own / HOST_LEAF]
    assert found is not None
    assert found.leaf == own / HOST_LEAF


# --- capacity ------------------------------------------------------------------------------------


def test_capacity_is_bounded_by_every_cgroup_above(tmp_path: Path) -> None:
    fake_v2(
        tmp_path,
        "/a/b",
        {
            "/": {"cgroup.controllers": "cpu memory"},
            "/a": {"cgroup.controllers": "cpu memory", "memory.max": "4096000", "cpu.max": "max 1"},
            "/a/b": {"cgroup.controllers": "cpu memory", "memory.max": "max",
                     "cpu.max": "25000 100000"},
        },
    )  # fmt: skip
    (tmp_path / "proc/meminfo").write_text("MemTotal: 8000000 kB\n", encoding="ascii")
    capacity = own_capacity(root=tmp_path)
    assert (capacity.memory_bytes, capacity.cpu_cores) == (4096000, 0.25)


def test_capacity_here_is_within_the_host() -> None:
    capacity = own_capacity()
    assert 0 < capacity.cpu_cores <= (os.cpu_count() or 1)
    assert (
        64 * MIB < capacity.memory_bytes <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    )


# --- layers --------------------------------------------------------------------------------------


@pytest.fixture
def context(tmp_path: Path) -> Path:
    folder = tmp_path / "environment"
    (folder / "data" / "deep").mkdir(parents=True)
    (folder / "data" / "one.txt").write_text("1", encoding="utf-8")
    (folder / "data" / "deep" / "two.txt").write_text("2", encoding="utf-8")
    (folder / "data" / "skip.log").write_text("log", encoding="utf-8")
    (folder / "run.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    (folder / "run.sh").chmod(0o750)
    (folder / ".dockerignore").write_text("**/*.log\n.dockerignore\n", encoding="utf-8")
    return folder


def build(context: Path, lines: str, layer: Path) -> Path:
    (context / "Dockerfile").write_text(f"FROM x\nWORKDIR /app\n{lines}\n", encoding="utf-8")
    dockerfile = read_dockerfile(context / "Dockerfile", {})
    layer.mkdir()
    build_layer(layer, dockerfile, layer_items(dockerfile))
    return layer


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("COPY run.sh .", {"app/run.sh"}),
        ("COPY run.sh /bin/tool", {"usr/bin/tool"}),
        ("COPY data .", {"app/one.txt", "app/deep/two.txt"}),
        ("COPY data /data/", {"data/one.txt", "data/deep/two.txt"}),
        ("COPY data/*.txt run.sh /x/", {"x/one.txt", "x/run.sh"}),
        ("COPY . /all", {"all/run.sh", "all/Dockerfile", "all/data/one.txt",
                         "all/data/deep/two.txt"}),
    ],
)  # fmt: skip
def test_copies_land_as_in_docker(
    context: Path, tmp_path: Path, line: str, files: set[str]
) -> None:
    layer = build(context, line, tmp_path / "layer")
    found = {str(path.relative_to(layer)) for path in layer.rglob("*") if path.is_file()}
    if not Path("/bin").is_symlink():
        files = {name.replace("usr/bin", "bin") for name in files}
    assert found == files
    assert (layer / "app").is_dir()


def test_modes_are_kept_or_as_asked(context: Path, tmp_path: Path) -> None:
    layer = build(context, "COPY run.sh /a\nCOPY --chmod=644 run.sh /b", tmp_path / "layer")
    assert (layer / "a").stat().st_mode & 0o777 == 0o750
    assert (layer / "b").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("COPY none.txt .", "none.txt is not in the build context"),
        ("COPY ../secret .", "lies outside the build context"),
        ("COPY escape .", "leads out of the build context"),
    ],
)
def test_sources_must_be_in_the_context(
    context: Path, tmp_path: Path, line: str, complaint: str
) -> None:
    (context / "escape").symlink_to("/etc")
    with pytest.raises(UsageError, match=complaint) as caught:
        build(context, line, tmp_path / "layer")
    assert "Dockerfile:3: " in str(caught.value)


def test_digest_follows_content_mode_environment_and_target(context: Path, tmp_path: Path) -> None:
    def digest(lines: str) -> str | None:
        (context / "Dockerfile").write_text(f"FROM x\n{lines}\n", encoding="utf-8")
        dockerfile = read_dockerfile(context / "Dockerfile", {})
        return layer_digest(dockerfile, layer_items(dockerfile))

    assert digest("") is None
    seen = [
        digest("COPY run.sh /a"),
        digest("COPY run.sh /b"),
        digest("ENV A=1"),
        digest("ENV A=2"),
    ]
    (context / "run.sh").chmod(0o700)
    seen.append(digest("COPY run.sh /a"))
    (context / "run.sh").write_text("other", encoding="utf-8")
    seen.append(digest("COPY run.sh /a"))
    assert len(set(seen)) == len(seen)
    assert digest("COPY run.sh /a") == seen[-1]


@pytest.mark.parametrize(
    ("patterns", "path", "ignored"),
    [
        ("*.log", "a.log", True),
        ("*.log", "sub/a.log", False),
        ("**/*.log", "sub/a.log", True),
        ("**/*.log", "a.log", True),
        ("sub", "sub/deep/file", True),
        ("sub/", "sub", True),
        ("*\n!keep", "keep", False),
        ("*\n!keep", "other", True),
        ("a?c", "abc", True),
        ("# comment", "# comment", False),
        ("data/**", "data/x/y", True),
    ],
)
def test_dockerignore(tmp_path: Path, patterns: str, path: str, ignored: bool) -> None:
    (tmp_path / ".dockerignore").write_text(patterns, encoding="utf-8")
    assert Ignored.read(tmp_path).matches(Path(path)) is ignored


# --- run folder ----------------------------------------------------------------------------------


def test_state_survives_the_disk(tmp_path: Path) -> None:
    state = SandboxState("study", "trial", "owner", ("/sys/fs/cgroup/x",), (7, 99))
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state
    (tmp_path / "state.json").write_text("{", encoding="utf-8")
    assert read_state(tmp_path) is None


def test_last_one_out_removes_the_run_folder(tmp_path: Path) -> None:
    first, second = RunFolder(tmp_path), RunFolder(tmp_path)
    first.new_sandbox("left", SandboxState("s", "t", "o", ()))
    first.close()
    assert second.path.is_dir()
    second.close()
    second.close()
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    (folder.path / "ledger").touch()
    folder.close()
    assert [path.name for path in folder.path.iterdir()] == ["ledger"]


def test_layer_is_built_once_and_a_failed_one_not_kept(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    built: list[Path] = []
    layers = [folder.layer("sha256:1", built.append) for _ in range(2)]
    assert layers[0] == layers[1]
    assert len(built) == 1

    def fail(layer: Path) -> None:
        (layer / "half").touch()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        folder.layer("sha256:2", fail)
    assert [path.name for path in folder.layers.iterdir()] == ["sha256-1"]
    folder.close()


def test_base_on_memory_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(state_module.FOLDER_VARIABLE, "/dev/shm")
    with pytest.raises(BackendUnavailableError) as caught:
        state_module.choose_base()
    assert "/dev/shm is on tmpfs" in str(caught.value)
    assert "$INFRANOISE_LOCAL_DIR" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_the_same_process_is_ended() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        started = start_time(child.pid)
        assert started is not None
        end_process(child.pid, started + 1)
        assert child.poll() is None
        end_process(child.pid, started)
        assert child.wait(5) == -9
        assert start_time(child.pid) is None
    finally:
        child.kill()


def test_trees_of_any_mode_are_removed(tmp_path: Path) -> None:
    script = "mkdir -p a/b/c; touch a/b/c/f; ln -s /etc a/l; chmod 0 a/b/c a/b a"
    subprocess.run(["sh", "-c", script], cwd=tmp_path, check=True)
    remove_tree(tmp_path / "a")
    assert not (tmp_path / "a").exists()
    assert Path("/etc/passwd").exists()


def test_trees_of_any_depth_are_removed(tmp_path: Path) -> None:
    name = "n" * 200  # 300 of them are no path that a system call takes
    script = f"""
        mkdir a; cd a; touch .infranoise-0; n=0
        while [ $n -lt 300 ]; do
            mkdir {name} .infranoise-1 && touch f && cd {name}; n=$((n+1))
        done
    """
    subprocess.run(["sh", "-c", script], cwd=tmp_path, check=True)
    remove_tree(tmp_path / "a")
    assert not list(tmp_path.iterdir())


# --- inside --------------------------------------------------------------------------------------


def test_messages_cross_whole() -> None:
    import socket

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(wire.pack({"bytes": b"\0\xff", "words": ["a", None, 1.5]}))
        assert wire.receive(theirs) == {"bytes": b"\0\xff", "words": ["a", None, 1.5]}
        ours.sendall(wire.pack("cut")[:-1])
        ours.close()
        assert wire.receive(theirs) is None


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_jumps_of_the_filter_stay_inside(machine: str) -> None:
    code = confine.build_filter(machine)
    assert code is not None
    lines = [struct.unpack("=HBBI", code[start : start + 8]) for start in range(0, len(code), 8)]
    for position, (instruction, if_true, if_false, _) in enumerate(lines):
        if instruction & 0x07 == 0x05:  # a jump
            assert position + 1 + max(if_true, if_false) < len(lines)
    assert lines[-1][0] == 0x06  # a return


def test_no_filter_for_an_unknown_machine() -> None:
    assert confine.build_filter("vax") is None


def test_holder_imports_only_the_standard_library() -> None:
    script = (
        "import sys; sys.path.append(sys.argv[1]); import inside.holder, json; "
        "print(json.dumps([n for n in sys.modules if n.startswith('pytest') or n == 'pathlib']))"
    )
    import pytest_infranoise.backends.local as package

    folder = str(Path(package.__file__).parent)
    command = [sys.executable, "-I", "-S", "-c", script, folder]
    found = subprocess.run(command, capture_output=True, check=True).stdout
    assert json.loads(found) == []


def test_a_root_that_no_mount_shows_is_refused_in_words() -> None:
    with pytest.raises(BackendUnavailableError, match=r"no mount shows /var/tmp; in a chroot"):
        mount_of(Path("/var/tmp"), [])
