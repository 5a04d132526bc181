"""Which folders are tasks, in which order, under which names."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_maker import MEMORY, TaskMaker

from pytest_infranoise.errors import UsageError
from pytest_infranoise.tasks.discovery import discover, find_task_directories, unique_names


def found(root: Path, *paths: str) -> list[str]:
    directories = find_task_directories([root / path for path in paths or (".",)])
    return [str(directory.relative_to(root)) for directory in directories]


def test_tasks_at_any_depth_in_a_stable_order(make_task: TaskMaker, tmp_path: Path) -> None:
    for where in ("z", "set/b", "set/a", "set/deep/er/c", "a-b", "a/b"):
        make_task(where=where)
    expected = ["a/b", "a-b", "set/a", "set/b", "set/deep/er/c", "z"]
    assert found(tmp_path) == expected
    assert found(tmp_path, "z", "set", "a-b", "a", "set/a") == expected


@pytest.mark.parametrize("name", ["build", "dist", "venv", "CVS", "node", "test", "x.egg"])
def test_ordinary_names_are_not_lost(make_task: TaskMaker, tmp_path: Path, name: str) -> None:
    make_task(where=f"set/{name}")
    assert found(tmp_path) == [f"set/{name}"]


@pytest.mark.parametrize("name", [".git", ".venv", ".hidden", "node_modules"])
def test_hidden_and_foreign_folders_are_skipped(
    make_task: TaskMaker, tmp_path: Path, name: str
) -> None:
    make_task(where=f"{name}/task")
    assert found(tmp_path) == []
    assert found(tmp_path, name) == [f"{name}/task"]


def test_a_task_is_a_leaf(make_task: TaskMaker, tmp_path: Path) -> None:
    make_task(files={"environment/data/task.toml": "", "tests/inner/task.toml": ""})
    assert found(tmp_path) == ["spike"]


@pytest.mark.parametrize(
    "path",
    [
        "spike",
        "spike/task.toml",
        "spike/tests",
        "spike/tests/test_outputs.py",
        "spike/environment/data",
        "spike/environment/data/task.toml",
        "spike/not-there.py",
    ],
)
def test_a_path_to_or_inside_a_task_is_the_task(
    make_task: TaskMaker, tmp_path: Path, path: str
) -> None:
    make_task(files={"environment/data/task.toml": "", "tests/test_outputs.py": ""})
    make_task(where="other")
    assert found(tmp_path, path) == ["spike"]


def test_a_stray_file_above_does_not_swallow_the_tasks(
    make_task: TaskMaker, tmp_path: Path
) -> None:
    make_task(where="set/spike")
    (tmp_path / "task.toml").write_text("")
    assert found(tmp_path, "set") == ["set/spike"]
    assert found(tmp_path, "set/spike") == ["set/spike"]


def test_a_task_without_anything_but_its_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare/task.toml").write_text("")
    assert found(tmp_path) == found(tmp_path, "bare") == found(tmp_path, "bare/task.toml")
    assert found(tmp_path) == ["bare"]


def test_paths_without_tasks_find_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("")
    assert found(tmp_path, ".", "test_it.py", "missing") == []


def test_symlinks_are_followed_once(make_task: TaskMaker, tmp_path: Path) -> None:
    make_task(where="real/spike")
    (tmp_path / "again").symlink_to("real")
    (tmp_path / "real/loop").symlink_to("..")
    (tmp_path / "real/self").symlink_to("self")
    (tmp_path / "real/broken").symlink_to("nowhere")
    assert found(tmp_path) == ["real/spike"]
    assert found(tmp_path, "again") == ["again/spike"]


def test_a_selection_made_of_symlinks(make_task: TaskMaker, tmp_path: Path) -> None:
    make_task(where="store/spike")
    (tmp_path / "chosen").mkdir()
    (tmp_path / "chosen/spike").symlink_to("../store/spike")
    assert found(tmp_path, "chosen") == ["chosen/spike"]


def names(*paths: str) -> list[str]:
    directories = [Path("/", path) for path in paths]
    named = unique_names(directories)
    return [named[directory] for directory in directories]


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (("x/spike", "x/other"), ["spike", "other"]),
        (("set-a/spike", "set-b/spike", "set-b/own"), ["set-a/spike", "set-b/spike", "own"]),
        (("x/a/t", "x/b/t", "y/a/t"), ["x/a/t", "b/t", "y/a/t"]),
        (("t", "a/t"), ["t", "a/t"]),
    ],
)
def test_names(paths: tuple[str, ...], expected: list[str]) -> None:
    assert names(*paths) == expected


@given(
    st.sets(
        st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4).map("/".join),
        min_size=1,
        max_size=12,
    )
)
def test_names_are_unique_ends_of_their_paths(paths: set[str]) -> None:
    ordered = sorted(paths)
    result = names(*ordered)
    assert len(set(result)) == len(result)
    for path, name in zip(ordered, result, strict=True):
        assert f"/{path}".endswith(f"/{name}")


def test_discover_reads_and_names(make_task: TaskMaker, tmp_path: Path) -> None:
    make_task(where="set-a/spike")
    make_task(where="set-b/spike")
    task_set = discover([tmp_path], host_environment={})
    assert [task.name for task in task_set.tasks] == ["set-a/spike", "set-b/spike"]
    assert task_set.tasks[0].digest == task_set.tasks[1].digest


def test_each_warning_is_said_once(make_task: TaskMaker, tmp_path: Path) -> None:
    for where in ("a", "b", "c"):
        make_task(f"{MEMORY}colour = 1\n", where=where)
    make_task(f"other = 1\n{MEMORY}", where="d")
    assert discover([tmp_path], host_environment={}).warnings == (
        "a and 2 more: [environment] colour: unknown key, ignored",
        "d: other: unknown key, ignored",
    )


def test_all_mistakes_are_reported_together(make_task: TaskMaker, tmp_path: Path) -> None:
    make_task(where="good")
    for number in range(13):
        make_task("[environment]\nmemory = '2Q'\n", where=f"bad-{number:02}")
    with pytest.raises(UsageError) as caught:
        discover([tmp_path], host_environment={})
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("bad-00/task.toml: [environment] memory: ")
    others = "; ".join(f"bad-{number:02}/task.toml" for number in (1, 2, 3))
    assert lines[1:] == [f"  13 of this kind, also: {others} and 9 more"]


def test_each_kind_of_many_mistakes_is_visible(make_task: TaskMaker, tmp_path: Path) -> None:
    for number in range(12):
        make_task(f"[environment]\nmemory = '{number}Q'\n", where=f"a-{number:02}")
    make_task("[environment]\nmemory = '1G\n", where="b")
    for number in range(2):
        make_task("[environment]\ncpus = -1\n", where=f"c-{number}")
    with pytest.raises(UsageError) as caught:
        discover([tmp_path], host_environment={})
    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "a-00/task.toml",
        "  12 of this kind, also",
        "b/task.toml",
        "c-0/task.toml",
        "  2 of this kind, also",
    ]


def test_the_options_reach_every_task(make_task: TaskMaker, tmp_path: Path) -> None:
    make_task(
        'version = "1.4"\n[environment]\nenv = { A = "${A}" }\n[solution]\nenv = { B = "${B}" }\n'
    )
    (task,) = discover(
        [tmp_path],
        default_memory_bytes=2**26,
        default_cpu_cores=0.5,
        host_environment={"A": "1"},
        uses_solution=False,
    ).tasks
    assert task.spec.memory_limit_bytes == 2**26
    assert task.spec.cpu_limit_cores == 0.5
    assert task.environment == {"A": "1"}


@pytest.mark.parametrize("name", ["a::b", "a[1]", "a\nb", "a\tb", "a\udcff"])
def test_names_that_cannot_be_item_ids_are_refused(
    make_task: TaskMaker, tmp_path: Path, name: str
) -> None:
    make_task(where=name)
    with pytest.raises(UsageError, match="rename it") as caught:
        discover([tmp_path], host_environment={})
    str(caught.value).encode()


def test_a_parents_name_counts_where_it_tells_tasks_apart(
    make_task: TaskMaker, tmp_path: Path
) -> None:
    make_task(where="set[1]/spike")
    assert [task.name for task in discover([tmp_path], host_environment={}).tasks] == ["spike"]
    make_task(where="set-2/spike")
    with pytest.raises(UsageError, match=r"set\[1\]/spike.*rename it"):
        discover([tmp_path], host_environment={})


def test_89_tasks_take_less_than_half_a_second(make_task: TaskMaker, tmp_path: Path) -> None:
    for number in range(89):
        make_task(where=f"set/task-{number}", files={"environment/data.bin": "x" * 100_000})
    start = time.process_time()
    assert len(discover([tmp_path], host_environment={}).tasks) == 89
    assert time.process_time() - start < 0.5


def test_discovery_needs_no_pytest() -> None:
    code = (
        "import sys, pytest_infranoise.tasks.discovery, pytest_infranoise.tasks.marker\n"
        "print([name for name in ('pytest', '_pytest', 'xdist', 'scipy', 'docker')"
        " if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
