"""Readers of cgroup files, on trees of files as kernels write them."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from required import missing_engine

from pytest_infranoise.backends.cgroup import read_counters, read_limits
from pytest_infranoise.backends.cgroup_paths import CgroupPaths, find_cgroup, has_ceiling
from pytest_infranoise.units import MIB

UNLIMITED = "9223372036854771712\n"


def write(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def v1(folder: Path, *, kills: int = 0, peak: int = 0, failcnt: int = 0, **more: str) -> Path:
    files = {
        "memory.oom_control": f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n",
        "memory.max_usage_in_bytes": f"{peak}\n",
        "memory.usage_in_bytes": f"{10 * MIB}\n",
        "memory.failcnt": f"{failcnt}\n",
        "memory.stat": f"inactive_file 7\ntotal_inactive_file {4 * MIB}\n",
        "memory.limit_in_bytes": UNLIMITED,
        "cpu.stat": "nr_periods 9\nnr_throttled 2\nthrottled_time 1500000000\n",
        "cpuacct.usage": "2500000000\n",
    }
    return write(
        folder, {**files, **{name.replace("__", "."): text for name, text in more.items()}}
    )


def v2(folder: Path, *, events: str = "", local: str | None = None, **more: str) -> Path:
    zero = "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n"
    files = {
        "cgroup.controllers": "cpu memory pids\n",
        "memory.events": events or zero,
        "memory.peak": f"{20 * MIB}\n",
        "memory.current": f"{10 * MIB}\n",
        "memory.stat": f"anon 5\ninactive_file {4 * MIB}\n",
        "memory.max": "max\n",
        "cpu.stat": (
            "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n"
            "nr_periods 9\nnr_throttled 2\nthrottled_usec 1500000\n"
        ),
    }
    if local is not None:
        files["memory.events.local"] = local
    return write(
        folder, {**files, **{name.replace("__", "."): text for name, text in more.items()}}
    )


def v1_paths(folder: Path) -> CgroupPaths:
    return CgroupPaths(1, folder, folder, folder)


# --- counters ------------------------------------------------------------------------------------


def test_both_versions_read_alike(tmp_path: Path) -> None:
    one = read_counters(v1_paths(v1(tmp_path / "v1", peak=20 * MIB)), None)
    two = read_counters(CgroupPaths.unified(v2(tmp_path / "v2")), None)
    for reading in (one, two):
        assert reading.oom_kills == 0
        assert reading.limit_reached is False
        assert reading.memory_peak_bytes == 20 * MIB
        assert reading.memory_working_set_bytes == 6 * MIB
        assert reading.cpu_seconds == pytest.approx(2.5)
        assert (reading.cpu_periods, reading.throttled_periods) == (9, 2)
        assert reading.throttled_seconds == pytest.approx(1.5)
    assert one.source == "cgroup v1 memory.oom_control"
    assert two.source == "cgroup v2 memory.events"


@given(kills=st.lists(st.integers(0, 1000), min_size=1, max_size=4))
def test_version_1_sums_kills_over_the_subtree(
    tmp_path_factory: pytest.TempPathFactory, kills: list[int]
) -> None:
    folder = top = tmp_path_factory.mktemp("v1")
    for count in kills:
        v1(folder, kills=count)
        folder = folder / "below"
    assert read_counters(v1_paths(top), None).oom_kills == sum(kills)


def test_version_2_kills_are_hierarchical_unless_mounted_otherwise(tmp_path: Path) -> None:
    top = v2(tmp_path / "top", events="max 0\noom 0\noom_kill 3\n")
    v2(top / "below", events="max 0\noom 0\noom_kill 2\n")
    assert read_counters(CgroupPaths.unified(top), None).oom_kills == 3
    local = CgroupPaths(2, top, top, top, local_events=True)
    assert read_counters(local, None).oom_kills == 5


@pytest.mark.parametrize(
    ("peak", "limit", "reached"),
    [
        (64 * MIB, 64 * MIB, True),
        (64 * MIB - 28 * 1024, 64 * MIB, True),  # the fatal charge may be of 8 pages
        (64 * MIB - 33 * 1024, 64 * MIB, False),
        (10 * MIB, 64 * MIB, False),
        (64 * MIB, None, False),
    ],
)
def test_version_1_limit_is_reached_when_the_peak_stands_at_it(
    tmp_path: Path, peak: int, limit: int | None, reached: bool
) -> None:
    reading = read_counters(v1_paths(v1(tmp_path, kills=1, peak=peak)), limit)
    assert reading.limit_reached is reached


@pytest.mark.parametrize(
    ("failcnt", "peak", "limit", "hits"),
    [
        (7, 64 * MIB, 64 * MIB, 7),
        (0, 64 * MIB, 64 * MIB, None),  # this kernel does not count
        (0, MIB, 64 * MIB, 0),
        (0, MIB, None, 0),
    ],
)
def test_version_1_hits_are_unknown_where_the_kernel_does_not_count(
    tmp_path: Path, failcnt: int, peak: int, limit: int | None, hits: int | None
) -> None:
    assert (
        read_counters(v1_paths(v1(tmp_path, peak=peak, failcnt=failcnt)), limit).limit_hits == hits
    )


@pytest.mark.parametrize(
    ("hierarchical", "local", "limit", "reached", "hits"),
    [
        ("max 4\noom 1\noom_kill 1\n", None, MIB, True, 4),  # kernel < 5.2
        ("max 4\noom 0\noom_kill 0\n", None, MIB, True, 4),
        ("max 0\noom 1\noom_kill 1\n", None, MIB, True, 0),
        ("max 0\noom 0\noom_kill 1\n", "max 0\noom 0\noom_kill 1\n", MIB, False, 0),  # the host's
        ("max 9\noom 1\noom_kill 1\n", "max 0\noom 0\noom_kill 0\n", MIB, False, 0),  # one below
        ("max 9\noom 1\noom_kill 1\n", "max 3\noom 1\noom_kill 0\n", MIB, True, 3),
        ("max 4\noom 1\noom_kill 1\n", None, None, False, 4),
        ("oom_kill 1\n", None, MIB, None, None),
    ],
)
def test_version_2_limit_is_reached_when_its_own_events_rose(
    tmp_path: Path,
    hierarchical: str,
    local: str | None,
    limit: int | None,
    reached: bool | None,
    hits: int | None,
) -> None:
    folder = v2(tmp_path / "group", events=hierarchical, local=local)
    reading = read_counters(CgroupPaths.unified(folder), limit)
    assert (reading.limit_reached, reading.limit_hits) == (reached, hits)


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_not_there_is_unknown_not_zero(tmp_path: Path, version: int) -> None:
    paths = CgroupPaths(version, tmp_path, None, None, proc=tmp_path)
    reading = read_counters(paths, MIB)
    names = type(reading).__dataclass_fields__.keys() - {"helpers"}  # it had none beside it
    assert [name for name in names if getattr(reading, name) is not None] == []
    assert read_limits(paths).values == {}


def test_old_kernel_without_a_kill_counter(tmp_path: Path) -> None:
    v1(tmp_path, memory__oom_control="oom_kill_disable 0\nunder_oom 0\n")
    reading = read_counters(v1_paths(tmp_path), MIB)
    assert (reading.oom_kills, reading.source) == (None, None)


def test_hybrid_host_reads_each_controller_where_it_is(tmp_path: Path) -> None:
    paths = CgroupPaths(1, v1(tmp_path / "v1", kills=2), v2(tmp_path / "v2"), None)
    reading = read_counters(paths, None)
    assert (reading.oom_kills, reading.cpu_seconds) == (2, pytest.approx(2.5))


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {
                "memory__limit_in_bytes": f"{64 * MIB}\n",
                "memory__soft_limit_in_bytes": f"{32 * MIB}\n",
                "memory__memsw.limit_in_bytes": f"{64 * MIB}\n",
                "cpu__cfs_quota_us": "25000\n",
                "cpu__cfs_period_us": "100000\n",
                "cpu__shares": "256\n",
            },
            {
                "memory_limit_bytes": 64 * MIB,
                "memory_reservation_bytes": 32 * MIB,
                "memory_swap_bytes": 64 * MIB,
                "cpu_limit_cores": 0.25,
                "cpu_weight": 256,
            },
        ),
        (
            {"cpu__cfs_quota_us": "-1\n", "cpu__cfs_period_us": "100000\n"},
            {"memory_limit_bytes": None, "cpu_limit_cores": None},
        ),
    ],
)
def test_version_1_limits(tmp_path: Path, files: dict[str, str], expected: Any) -> None:
    assert read_limits(v1_paths(v1(tmp_path, **files))).values == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {
                "memory__max": f"{64 * MIB}\n",
                "memory__low": f"{32 * MIB}\n",
                "memory__swap.max": "0\n",
                "cpu__max": "25000 100000\n",
                "cpu__weight": "10\n",
            },
            {
                "memory_limit_bytes": 64 * MIB,
                "memory_reservation_bytes": 32 * MIB,
                "memory_swap_bytes": 64 * MIB,
                "cpu_limit_cores": 0.25,
                "cpu_weight": 10,
            },
        ),
        (
            {"memory__low": "0\n", "memory__swap.max": "0\n", "cpu__max": "max 100000\n"},
            {
                "memory_limit_bytes": None,
                "memory_reservation_bytes": None,
                "memory_swap_bytes": None,
                "cpu_limit_cores": None,
            },
        ),
        (
            {"memory__max": f"{MIB}\n", "memory__swap.max": "max\n"},
            {"memory_limit_bytes": MIB, "memory_swap_bytes": None},
        ),
    ],
)
def test_version_2_limits(tmp_path: Path, files: dict[str, str], expected: Any) -> None:
    assert read_limits(CgroupPaths.unified(v2(tmp_path, **files))).values == expected


def test_ceiling_above(tmp_path: Path) -> None:
    for version, make, limit in ((1, v1, "memory__limit_in_bytes"), (2, v2, "memory__max")):
        root = tmp_path / f"v{version}"
        make(root)
        if version == 2:
            (root / "memory.max").unlink()  # the root has none
        inner = make(make(root / "a") / "b")
        paths = CgroupPaths(version, inner)
        assert not has_ceiling(paths)
        make(inner, **{limit: f"{MIB}\n"})  # its own limit is no ceiling
        assert not has_ceiling(paths)
        make(root / "a", **{limit: f"{MIB}\n"})
        assert has_ceiling(paths)


# --- finding -------------------------------------------------------------------------------------


def mount(kind: str, point: str, options: str, root: str = "/") -> str:
    return f"31 23 0:28 {root} {point} rw,nosuid shared:9 - {kind} {kind} rw,{options}\n"


def host(tmp_path: Path, membership: str, mounts: str) -> Path:
    write(tmp_path / "proc" / "self", {"mountinfo": mounts})
    write(tmp_path / "proc" / "42", {"cgroup": membership})
    return tmp_path


def test_find_on_version_2(tmp_path: Path) -> None:
    root = host(tmp_path, "0::/a/b\n", mount("cgroup2", "/sys/fs/cgroup", "nsdelegate"))
    folder = v2(root / "sys/fs/cgroup/a/b")
    assert find_cgroup(42, root=root) == CgroupPaths.unified(folder)


def test_find_on_version_1_with_a_path_and_mount_per_controller(tmp_path: Path) -> None:
    root = host(
        tmp_path,
        "9:name=systemd:/x\n4:memory:/mem/group\n2:cpu,cpuacct:/cpu/group\n0::/x\n",
        mount("cgroup", "/cg/memory", "memory")
        + mount("cgroup", "/cg/cpu\\040both", "cpu,cpuacct")
        + mount("cgroup2", "/cg/unified", "nsdelegate"),
    )
    memory = v1(root / "cg/memory/mem/group")
    cpu = v1(root / "cg/cpu both/cpu/group")
    write(root / "cg/unified/x", {"cgroup.controllers": "\n"})
    assert find_cgroup(42, root=root) == CgroupPaths(1, memory, cpu, cpu)


def test_find_where_only_a_part_of_the_tree_is_mounted(tmp_path: Path) -> None:
    root = host(
        tmp_path, "0::/docker/abc/inner\n", mount("cgroup2", "/cg", "nsdelegate", "/docker/abc")
    )
    folder = v2(root / "cg/inner")
    found = find_cgroup(42, root=root)
    assert found is not None
    assert found.memory_path == folder


@pytest.mark.parametrize(
    ("membership", "mounts"),
    [
        ("0::/a\n", ""),
        ("", mount("cgroup2", "/cg", "nsdelegate")),
        ("0::/other\n", mount("cgroup2", "/cg", "nsdelegate", "/docker/abc")),
        ("0::/docker/abcdef\n", mount("cgroup2", "/cg", "nsdelegate", "/docker/abc")),
        ("0::/gone\n", mount("cgroup2", "/cg", "nsdelegate")),
        ("4:memory:/a\n", mount("cgroup", "/cg", "cpu")),
    ],
)
def test_what_cannot_be_seen_is_not_found(tmp_path: Path, membership: str, mounts: str) -> None:
    root = host(tmp_path, membership, mounts)
    v2(root / "cg")
    v2(root / "cg/a")
    assert find_cgroup(42, root=root) is None
    assert find_cgroup(43, root=root) is None


def test_unified_tree_without_the_memory_controller_is_not_version_2(tmp_path: Path) -> None:
    root = host(tmp_path, "0::/a\n", mount("cgroup2", "/cg", "nsdelegate"))
    write(root / "cg/a", {"cgroup.controllers": "cpu pids\n"})
    assert find_cgroup(42, root=root) is None


def test_local_events_are_noticed(tmp_path: Path) -> None:
    root = host(tmp_path, "0::/\n", mount("cgroup2", "/cg", "memory_localevents"))
    v2(root / "cg")
    found = find_cgroup(42, root=root)
    assert found is not None
    assert found.local_events


def test_select_chooses_an_ancestor_or_rejects(tmp_path: Path) -> None:
    root = host(tmp_path, "0::/docker/abc/inner\n", mount("cgroup2", "/cg", "nsdelegate"))
    v2(root / "cg/docker/abc/inner")
    top = v2(root / "cg/docker/abc")
    found = find_cgroup(42, root=root, select=lambda path: path.removesuffix("/inner"))
    assert found is not None
    assert found.memory_path == top
    assert find_cgroup(42, root=root, select=lambda path: None) is None


def test_own_cgroup_of_this_process() -> None:
    found = find_cgroup()
    if found is None:
        missing_engine("local", "no memory controller is visible to this process")
    reading = read_counters(found, None)
    assert reading.limit_reached is False
    assert reading.memory_peak_bytes is None or reading.memory_peak_bytes > 0
