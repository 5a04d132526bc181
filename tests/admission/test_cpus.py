"""Which CPUs whole-core allocations are bound to."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_infranoise.admission import take_cpus


def test_trials_in_a_row_take_the_next_cpus(tmp_path: Path) -> None:
    taken = [take_cpus((0, 1, 2, 3, 4), 2, "e", directory=tmp_path) for _ in range(5)]
    assert taken == [(0, 1), (2, 3), (0, 4), (1, 2), (3, 4)]


@pytest.mark.parametrize("count", [0, 4, 5])
def test_all_cpus_need_no_binding(tmp_path: Path, count: int) -> None:
    assert take_cpus((0, 1, 2, 3), count, "e", directory=tmp_path) is None
    assert take_cpus((), 1, "e", directory=tmp_path) is None


def test_engines_have_turns_of_their_own(tmp_path: Path) -> None:
    assert take_cpus((0, 1), 1, "a", directory=tmp_path) == (0,)
    assert take_cpus((0, 1), 1, "b", directory=tmp_path) == (0,)
    assert take_cpus((0, 1), 1, "a", directory=tmp_path) == (1,)


@pytest.mark.parametrize("content", ["", "x", "-3", "9" * 30, "1.5"])
def test_a_file_that_holds_no_number_starts_anew(tmp_path: Path, content: str) -> None:
    take_cpus((0, 1), 1, "e", directory=tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_text(content)
    assert take_cpus((0, 1), 1, "e", directory=tmp_path) == (0,)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=40))
def test_the_load_differs_by_one_trial_at_most(counts: list[int]) -> None:
    import tempfile

    cpus = tuple(range(3, 11))
    load = Counter(dict.fromkeys(cpus, 0))
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            taken = take_cpus(cpus, count, "e", directory=Path(folder))
            assert taken is not None
            assert len(set(taken)) == count
            load.update(taken)
    assert max(load.values()) - min(load.values()) <= 1


def test_processes_share_the_turn(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pytest_infranoise.admission import take_cpus\n"
        "for _ in range(20): print(*take_cpus(range(4), 1, 'e', directory=Path(sys.argv[1])))"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    taken = "".join(process.communicate()[0] for process in running).split()
    assert Counter(taken) == {"0": 10, "1": 10, "2": 10, "3": 10}
