"""The ledger with real processes, watched from outside."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pytest_infranoise.admission import (
    AdmissionLedger,
    AdmissionStoppedError,
    Budget,
    Request,
    default_directory,
)
from pytest_infranoise.admission import ledger as ledger_module
from pytest_infranoise.admission.entry import Entry, birth_of
from pytest_infranoise.errors import InfranoiseError, UsageError

WORKER = Path(__file__).with_name("ledger_worker.py")
BUDGET = Budget(memory_bytes=1000, cpu_cores=2)
SECONDS = 30


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "ledger"


@pytest.fixture
def ledger(folder):
    return AdmissionLedger("engine", folder)


@pytest.fixture
def events(tmp_path):
    return tmp_path / "events"


@pytest.fixture
def start(folder, events):
    """Start workers; all of them are gone when the test ends."""
    with ExitStack() as stack:

        def start_worker(memory, cores=0.0, *, count=1, hold=0.0, budget=BUDGET):
            words = (folder, events, memory, cores, budget.memory_bytes, budget.cpu_cores)
            process = subprocess.Popen(
                [sys.executable, str(WORKER), *map(str, words), str(count), str(hold)]
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        yield start_worker


def lines(events):
    return [line.split() for line in events.read_text().splitlines()] if events.exists() else []


def wait_until(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def has_said(events, process, what):
    return [what, str(process.pid)] in [line[:2] for line in lines(events)]


@contextmanager
def in_thread(call):
    found = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()
    yield found
    thread.join(SECONDS)
    assert not thread.is_alive()


def waiting(ledger):
    return [entry for entry in entries(ledger) if entry.state == "w"]


def entries(ledger):
    names = sorted(path.name for path in ledger._folder.iterdir())
    return [entry for name in names if (entry := Entry.parse(name))]


class TestGrants:
    def test_a_free_share_is_granted_at_once_and_given_back(self, ledger):
        with ledger.admit(Request(600, 0.5), budget=BUDGET) as grant:
            assert grant.trials_beside == 0
            assert grant.wait_seconds < 1
            assert ledger.open_grants() == 1
            with ledger.admit(Request(400, 1.5), budget=BUDGET) as second:
                assert second.trials_beside == 1
        assert ledger.open_grants() == 0
        assert entries(ledger) == []

    def test_it_is_given_back_on_an_error_and_only_once(self, ledger):
        with (
            pytest.raises(KeyboardInterrupt),
            ledger.admit(Request(1000, 2), budget=BUDGET) as grant,
        ):
            raise KeyboardInterrupt
        other = ledger.try_admit(Request(1000, 2), budget=BUDGET)
        grant.release()
        assert ledger.open_grants() == 1
        other.release()

    @pytest.mark.parametrize("request_", [Request(401, 0), Request(1, 1.6)])
    def test_try_admit_needs_room_for_bytes_and_cores(self, ledger, request_):
        with ledger.admit(Request(600, 0.5), budget=BUDGET):
            assert ledger.try_admit(request_, budget=BUDGET) is None
            assert ledger.open_grants() == 1
        with ledger.try_admit(request_, budget=BUDGET) as grant:
            assert grant.trials_beside == 0

    def test_what_never_fits_is_refused_at_once(self, ledger):
        with pytest.raises(UsageError, match="spike/1x-s1: guarantee 1001 B never fits"):
            ledger.admit(Request(1001, 0, "spike/1x-s1"), budget=BUDGET)
        assert entries(ledger) == []

    def test_engines_have_ledgers_of_their_own(self, ledger, folder):
        other = AdmissionLedger("another", folder)
        with ledger.admit(Request(1000, 2), budget=BUDGET):
            assert other.try_admit(Request(1000, 2), budget=BUDGET) is not None

    def test_clients_of_one_engine_share(self, ledger, folder):
        with ledger.admit(Request(1000, 2), budget=BUDGET):
            twin = AdmissionLedger("engine", folder)
            assert twin.try_admit(Request(1, 0), budget=BUDGET) is None

    def test_a_forked_child_does_not_give_back_its_parents_share(self, ledger):
        with ledger.admit(Request(1000, 2), budget=BUDGET) as grant:
            child = os.fork()
            if child == 0:
                grant.release()
                os._exit(0)
            os.waitpid(child, 0)
            assert len(entries(ledger)) == 1


class TestWaiting:
    def test_it_is_woken_at_once_and_its_wait_is_measured(self, ledger):
        said = []
        held = ledger.admit(Request(1000, 0), budget=BUDGET)
        woken = []

        def wait():
            grant = ledger.admit(
                Request(500, 0), budget=BUDGET, on_wait=lambda: said.append("waits")
            )
            woken.append(time.monotonic())
            return grant

        with in_thread(wait) as found:
            wait_until(lambda: waiting(ledger))
            time.sleep(0.3)
            released = time.monotonic()
            held.release()
        assert said == ["waits"]
        assert found[0].wait_seconds >= 0.3
        assert found[0].trials_beside == 0
        # the byte through the pipe, not the slow look: measured 1 ms, and a look takes up to 100
        assert woken[0] - released < 0.08
        found[0].release()

    def test_all_that_one_release_makes_room_for_are_woken_at_once(self, ledger):
        held = ledger.admit(Request(1000, 0), budget=BUDGET)
        admitted = []

        def wait():
            ledger.admit(Request(200, 0), budget=BUDGET)
            admitted.append(time.monotonic())

        with ExitStack() as stack:
            for count in range(1, 6):
                stack.enter_context(in_thread(wait))
                wait_until(lambda count=count: len(waiting(ledger)) == count)
            released = time.monotonic()
            held.release()
        # each wakes the next: measured 5 ms for all; by slow looks alone it takes a second
        assert max(admitted) - released < 0.3

    def test_should_stop_ends_the_wait_and_leaves_nothing(self, ledger):
        stop = threading.Event()

        def wait():
            with pytest.raises(AdmissionStoppedError):
                ledger.admit(Request(500, 0), budget=BUDGET, should_stop=stop.is_set)

        with ledger.admit(Request(1000, 0), budget=BUDGET):
            with in_thread(wait):
                wait_until(lambda: waiting(ledger))
                stop.set()
            assert waiting(ledger) == []

    def test_an_interrupt_while_waiting_leaves_no_ticket(self, ledger):
        def interrupt():
            raise KeyboardInterrupt

        with ledger.admit(Request(1000, 0), budget=BUDGET):
            with pytest.raises(KeyboardInterrupt):
                ledger.admit(Request(500, 0), budget=BUDGET, on_wait=interrupt)
            assert waiting(ledger) == []

    def test_nothing_is_held_while_waiting(self, ledger):
        """A request for bytes and cores that waits for its cores does not keep the bytes."""
        with (
            ledger.admit(Request(100, 2), budget=BUDGET) as held,
            in_thread(lambda: ledger.admit(Request(900, 1), budget=BUDGET)) as found,
        ):
            wait_until(lambda: waiting(ledger))
            assert sum(e.memory_bytes for e in entries(ledger) if e.state == "o") == 100
            held.release()
        found[0].release()

    def test_one_that_stops_wakes_those_behind_it(self, ledger):
        stop = threading.Event()

        def large():
            with pytest.raises(AdmissionStoppedError):
                ledger.admit(Request(1000, 0), budget=BUDGET, should_stop=stop.is_set)

        with ledger.admit(Request(500, 0), budget=BUDGET), in_thread(large):
            wait_until(lambda: len(waiting(ledger)) == 1)
            with in_thread(lambda: ledger.admit(Request(100, 0), budget=BUDGET)) as small:
                wait_until(lambda: len(waiting(ledger)) == 2)
                stop.set()
            assert small[0].wait_seconds < SECONDS
            small[0].release()

    def test_a_large_request_is_not_starved_and_the_queue_keeps_its_order(self, ledger):
        order = []

        def take(name, size):
            with ledger.admit(Request(size, 0), budget=BUDGET):
                order.append(name)

        held = ledger.admit(Request(500, 0), budget=BUDGET)
        with ExitStack() as stack:
            for count, (name, size) in enumerate([("large", 1000), ("b", 10), ("c", 10)], start=1):
                stack.enter_context(in_thread(lambda name=name, size=size: take(name, size)))
                wait_until(lambda count=count: len(waiting(ledger)) == count)
            assert ledger.try_admit(Request(10, 0), budget=BUDGET) is None
            assert order == []
            held.release()
        assert order[0] == "large"
        assert sorted(order[1:]) == ["b", "c"]


def replay(events):
    """Return the largest sums of open bytes, microcores and grants that were ever seen."""
    memory = cores = grants = 0
    peaks = (0, 0, 0)
    for what, _, size, share in lines(events):
        sign = {"open": 1, "close": -1, "wait": 0}[what]
        memory, cores, grants = memory + sign * int(size), cores + sign * int(share), grants + sign
        peaks = tuple(map(max, peaks, (memory, cores, grants)))
    assert (memory, cores, grants) == (0, 0, 0)
    return peaks


class TestProcesses:
    def test_eight_processes_never_exceed_a_budget_for_two(self, start, events, ledger):
        workers = [start(500, 1, count=100) for _ in range(8)]
        assert [worker.wait(SECONDS) for worker in workers] == [0] * 8
        assert replay(events) == (1000, 2_000_000, 2)
        assert sum(line[0] == "open" for line in lines(events)) == 800
        assert entries(ledger) == []

    def test_mixed_sizes_stay_within_bytes_and_cores(self, start, events, ledger):
        sizes = [(1000, 0.1), (700, 0.3), (300, 1.0), (100, 1.9), (10, 0.25), (333, 0.7)]
        workers = [start(memory, cores, count=12, hold=0.003) for memory, cores in sizes]
        assert [worker.wait(SECONDS) for worker in workers] == [0] * len(sizes)
        memory, cores, _ = replay(events)
        assert memory <= 1000
        assert cores <= 2_000_000
        assert entries(ledger) == []

    def test_runs_with_different_budgets_each_keep_their_own(self, start, events):
        small = [start(400, count=8, hold=0.004, budget=Budget(500, 2)) for _ in range(3)]
        large = [start(400, count=8, hold=0.004, budget=Budget(900, 2)) for _ in range(3)]
        assert [worker.wait(SECONDS) for worker in small + large] == [0] * 6
        assert replay(events)[0] <= 900

    def test_first_come_first_served_over_processes(self, start, events, ledger):
        held = ledger.admit(Request(1000, 0), budget=BUDGET)
        workers = []
        for _ in range(4):
            workers.append(start(1000))
            wait_until(lambda: has_said(events, workers[-1], "wait"))
        held.release()
        assert [worker.wait(SECONDS) for worker in workers] == [0] * 4
        opened = [int(line[1]) for line in lines(events) if line[0] == "open"]
        assert opened == [worker.pid for worker in workers]

    def test_the_share_of_a_killed_process_frees_itself(self, start, events, ledger):
        holder = start(1000, hold=600)
        wait_until(lambda: has_said(events, holder, "open"))
        with in_thread(lambda: ledger.admit(Request(1000, 0), budget=BUDGET)) as found:
            wait_until(lambda: waiting(ledger))
            killed = time.monotonic()
            holder.send_signal(signal.SIGKILL)  # not waited for: it stays a zombie
        assert time.monotonic() - killed < 2
        assert [entry.pid for entry in entries(ledger)] == [os.getpid()]
        found[0].release()

    def test_the_ticket_of_a_killed_process_frees_itself(self, start, events, ledger):
        held = ledger.admit(Request(500, 0), budget=BUDGET)
        waiter = start(1000)
        wait_until(lambda: has_said(events, waiter, "wait"))
        with in_thread(lambda: ledger.admit(Request(100, 0), budget=BUDGET)) as found:
            wait_until(lambda: len(waiting(ledger)) == 2)
            waiter.send_signal(signal.SIGKILL)
        assert found[0].trials_beside == 1
        assert {entry.pid for entry in entries(ledger)} == {os.getpid()}
        found[0].release()
        held.release()

    def test_a_killed_crowd_leaves_nothing_behind(self, start, events, ledger):
        workers = [start(300, count=1000, hold=0.001) for _ in range(6)]
        wait_until(lambda: len(lines(events)) > 100)
        for worker in workers:
            worker.send_signal(signal.SIGKILL)
        with ledger.admit(Request(1000, 2), budget=BUDGET) as grant:
            assert grant.trials_beside == 0
        assert entries(ledger) == []

    def test_waiting_costs_next_to_nothing(self, ledger):
        """Only the head of the queue looks often; a byte in their pipes wakes the others."""
        stop = threading.Event()

        def wait():
            with pytest.raises(AdmissionStoppedError):
                ledger.admit(Request(1000, 0), budget=BUDGET, should_stop=stop.is_set)

        with ledger.admit(Request(1000, 0), budget=BUDGET), ExitStack() as stack:
            for _ in range(20):
                stack.enter_context(in_thread(wait))
            wait_until(lambda: len(waiting(ledger)) == 20)
            before = time.process_time()
            time.sleep(1)
            used = time.process_time() - before
            stop.set()
        assert used < 0.1  # of one core; measured 0.01


class TestTheFolder:
    def test_files_that_are_not_ours_are_passed_over(self, ledger):
        for name in ("junk", "1.w.2", "x.o.1.1.1.1.n", "1.z.1.1.1.1.n", "-1.o.1.1.1.1.n"):
            (ledger._folder / name).write_bytes(b"\x00\xff")
        with ledger.admit(Request(1000, 2), budget=BUDGET) as grant:
            assert grant.trials_beside == 0

    def test_a_process_with_a_reused_pid_holds_nothing(self, ledger):
        stale = Entry(1, "o", os.getpid(), birth_of(os.getpid()) - 1, 1000, 0, "abcd")
        (ledger._folder / stale.name).touch()
        assert ledger.open_grants() == 0
        assert entries(ledger) == []

    def test_live_grants_survive_a_cleaner_of_temporary_files(self, ledger):
        with ledger.admit(Request(600, 0), budget=BUDGET):
            for path in ledger._folder.iterdir():
                path.unlink()
            ledger._folder.rmdir()
            assert ledger.try_admit(Request(500, 0), budget=BUDGET) is None
            assert ledger.open_grants() == 1
        assert ledger.open_grants() == 0

    def test_a_waiter_survives_it_too(self, ledger):
        held = ledger.admit(Request(1000, 0), budget=BUDGET)
        with in_thread(lambda: ledger.admit(Request(600, 0), budget=BUDGET)) as found:
            wait_until(lambda: waiting(ledger))
            for path in ledger._folder.iterdir():
                if path.name != "lock":
                    path.unlink()
            held.release()
        assert ledger.open_grants() == 1
        found[0].release()
        assert entries(ledger) == []

    def test_it_is_private(self, ledger, folder):
        assert folder.stat().st_mode & 0o777 == 0o700
        assert ledger._folder.stat().st_mode & 0o777 == 0o700

    @pytest.mark.parametrize("mode", [0o755, 0o770, 0o777])
    def test_a_folder_open_to_others_is_refused(self, tmp_path, mode):
        (tmp_path / "open").mkdir()
        (tmp_path / "open").chmod(mode)
        with pytest.raises(UsageError, match="not a folder that only you can use"):
            AdmissionLedger("engine", tmp_path / "open")

    def test_a_link_in_its_place_is_refused(self, tmp_path):
        (tmp_path / "target").mkdir(mode=0o700)
        (tmp_path / "link").symlink_to(tmp_path / "target")
        with pytest.raises(UsageError, match="not a folder that only you can use"):
            AdmissionLedger("engine", tmp_path / "link")

    def test_a_file_in_its_place_is_a_usage_error(self, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(UsageError, match="cannot use"):
            AdmissionLedger("engine", tmp_path / "file")

    def test_a_ledger_that_cannot_be_written_is_one_clear_error(self, ledger, monkeypatch):
        def refuse(*_, **__):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(ledger_module.Path, "touch", refuse)
        with pytest.raises(InfranoiseError, match=r"cannot use the ledger in .*: No space left"):
            ledger.admit(Request(1, 0), budget=BUDGET)
        monkeypatch.undo()
        assert ledger.open_grants() == 0

    def test_runtime_folder_first_then_the_temporary_one(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
        name = f"infranoise-{os.getuid()}"
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        assert default_directory() == tmp_path / name
        for unusable in (str(tmp_path / "missing"), ""):
            monkeypatch.setenv("XDG_RUNTIME_DIR", unusable)
            assert default_directory() == tmp_path / "tmp" / name
        monkeypatch.delenv("XDG_RUNTIME_DIR")
        assert default_directory() == tmp_path / "tmp" / name
