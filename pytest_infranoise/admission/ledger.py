"""The ledger of what is reserved on an engine, shared by processes.

The ledger is a private folder in which every request is one empty file. The file's *name* holds all
there is to know (ticket, state, owner, bytes and cores), so that creating, renaming or removing it
is one atomic step of the kernel and no half-written ledger can exist. A lock file serialises the
processes; nothing is locked and nothing is held while a request waits.

A waiting request is a named pipe: who frees something writes a byte to the pipe of the request at
the head of the queue. The slow look besides, every `LOOK_SECONDS`, is there for holders that were
killed and could not say so.

Processes that cannot see each other (another PID namespace) keep separate ledgers, since neither
could tell whether the other still lives.
"""

import fcntl
import os
import secrets
import select
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Self

from pytest_infranoise.admission.budget import Budget, Request, misfit
from pytest_infranoise.admission.entry import (
    OPEN,
    WAITING,
    Entry,
    birth_of,
    birth_of_living,
)
from pytest_infranoise.admission.folder import default_directory, make_private
from pytest_infranoise.admission.waiting import Waiting, waiting_of
from pytest_infranoise.errors import InfranoiseError, UsageError

LOOK_SECONDS = 0.1
"""How often the head of the queue looks for holders that died, and everybody for `should_stop`."""
TELL_SECONDS = 30.0
"""How often a request that waits tells what for."""
LOOKS_BEHIND = 10
"""Behind the head every tenth look is enough: it only finds a head that died."""


class AdmissionStoppedError(InfranoiseError):
    """The caller's `should_stop` became true while the request waited; nothing is held."""


@dataclass(slots=True)
class Grant:
    """An admitted request; leaving its `with` block gives the share back.

    `wait_seconds` is how long it waited, `trials_beside` how many other grants were open when it
    was admitted.
    """

    wait_seconds: float
    trials_beside: int
    _give_back: Callable[[], None] | None
    _pid: int = field(default_factory=os.getpid)

    def release(self) -> None:
        """Give the share back; safe to call twice, and without effect in a forked child."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None and self._pid == os.getpid():
            give_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


@dataclass
class AdmissionLedger:
    """The budget of one engine, shared by all processes of this user on this host.

    `engine_id` names the engine, so that two clients of one engine share a ledger. `name` is how
    those who wait for this process are told of it. Requests are
    admitted first come first served: one that does not fit yet holds back those behind it, so that
    a large request is never starved. Safe to use from threads.

    Raises:
        UsageError: the folder belongs to another user or is open to others.
    """

    engine_id: str
    directory: Path | None = None
    name: str | None = None
    _named: int | None = field(init=False, default=None)
    _folder: Path = field(init=False)
    _mine: set[Entry] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        parent = default_directory() if self.directory is None else self.directory
        scope = f"{self.engine_id}\x00{Path('/proc/self/ns/pid').stat().st_ino}"
        self._folder = parent / ("admission-" + sha256(scope.encode()).hexdigest()[:16])
        try:
            make_private(parent)
            make_private(self._folder)
        except OSError as error:
            raise UsageError(f"admission: cannot use {parent}: {error.strerror}") from error

    def admit(
        self,
        request: Request,
        *,
        budget: Budget,
        should_stop: Callable[[], bool] | None = None,
        on_wait: Callable[[], None] | None = None,
        tell: Callable[[Waiting], None] | None = None,
    ) -> Grant:
        """Wait until the request fits, then return its grant, to be used in a `with` statement.

        `on_wait` is called once if the request has to wait, `should_stop` about ten times a second
        while it does, and `tell` every `TELL_SECONDS`.

        Raises:
            UsageError: the request exceeds the budget even alone.
            AdmissionStoppedError: `should_stop` became true.
        """
        if not budget.can_ever_hold(request):
            raise UsageError(f"{request.label or 'trial'}: {misfit(request, budget)}")
        began = time.monotonic()
        nonce = secrets.token_hex(4)
        try:
            entry, beside = self._enter(request, budget, nonce)
            if beside is None:
                if on_wait is not None:
                    on_wait()

                def look() -> None:
                    if tell is not None:
                        tell(self._waiting(request, nonce, time.monotonic() - began))

                beside = self._wait(entry, budget, should_stop, look)
            return Grant(time.monotonic() - began, beside, lambda: self._remove(nonce))
        except BaseException:  # an interrupt too must not leave a ticket that blocks the queue
            self._remove(nonce)
            raise

    def try_admit(self, request: Request, *, budget: Budget) -> Grant | None:
        """Return a grant if the request fits now and nobody waits before it; else None."""
        nonce = secrets.token_hex(4)
        with self._locked() as entries:
            beside = None if _queue(entries) else _room_for(request, entries, budget)
            if beside is None:
                return None
            self._create(_next_entry(request, OPEN, nonce, entries))
        return Grant(0.0, beside, lambda: self._remove(nonce))

    def open_grants(self) -> int:
        """Return how many grants are open now, over all processes."""
        with self._locked() as entries:
            return sum(entry.state == OPEN for entry in entries)

    def _enter(self, request: Request, budget: Budget, nonce: str) -> tuple[Entry, int | None]:
        """Take a ticket, and the share with it if it is free: then the count of other grants."""
        with self._locked() as entries:
            self._say_name()
            beside = None if _queue(entries) else _room_for(request, entries, budget)
            entry = _next_entry(request, WAITING if beside is None else OPEN, nonce, entries)
            self._create(entry)
        return entry, beside

    def _waiting(self, request: Request, nonce: str, seconds: float) -> Waiting:
        with self._locked() as entries:
            names = {
                pid: name for pid in {item.pid for item in entries} if (name := self._name(pid))
            }
        return waiting_of(request, nonce, seconds, entries, names)

    def _name(self, pid: int) -> str | None:
        with suppress(OSError):
            return (self._folder / f"name.{pid}.{birth_of(pid)}").read_text("utf-8")
        return None

    def _say_name(self) -> None:
        """Leave word of who this process is, for those who wait for what it holds."""
        pid = os.getpid()
        if self.name is not None and self._named != pid:
            for path in self._folder.glob("name.*"):
                _, other, born = path.name.split(".")
                if str(birth_of(int(other))) != born:
                    path.unlink(missing_ok=True)
            file = self._folder / f"name.{pid}.{birth_of_living(pid)}"
            file.write_text(self.name, "utf-8")
            self._named = pid

    def _wait(
        self,
        entry: Entry,
        budget: Budget,
        should_stop: Callable[[], bool] | None,
        tell: Callable[[], None],
    ) -> int:
        told = time.monotonic()
        with self._locked():
            pipe = os.open(self._folder / entry.name, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            looks = 0
            while True:
                if looks == 0:
                    is_head, beside = self._try_open(entry, budget)
                    if beside is not None:
                        return beside
                    looks = 1 if is_head else LOOKS_BEHIND
                if should_stop is not None and should_stop():
                    raise AdmissionStoppedError("stopped while waiting for resources")
                if time.monotonic() - told >= TELL_SECONDS:
                    told = time.monotonic()
                    tell()
                looks -= 1
                if select.select([pipe], [], [], LOOK_SECONDS)[0]:
                    os.read(pipe, 4096)
                    looks = 0
        finally:
            os.close(pipe)

    def _try_open(self, entry: Entry, budget: Budget) -> tuple[bool, int | None]:
        """Open a waiting entry if its turn has come, and wake the next in line.

        Returns whether it stands at the head, and once open how many other grants are.
        """
        with self._locked() as entries:
            queue = _queue(entries)
            if not queue or queue[0] != entry:
                return False, None
            beside = _room_for(entry, entries, budget)
            if beside is not None:
                self._mine.discard(entry)
                self._mine.add(entry.opened())
                (self._folder / entry.name).rename(self._folder / entry.opened().name)
                self._wake(queue[1:])
        return True, beside

    def _remove(self, nonce: str) -> None:
        """Take a request out of the ledger, whatever its state, and wake the head of the queue."""
        with self._locked() as entries:
            for entry in [*entries, *self._mine]:
                if entry.nonce == nonce:
                    self._mine.discard(entry)
                    (self._folder / entry.name).unlink(missing_ok=True)
            self._wake(_queue(entry for entry in entries if entry.nonce != nonce))

    def _create(self, entry: Entry) -> None:
        path = self._folder / entry.name
        if entry.state == WAITING:
            os.mkfifo(path, 0o600)
        else:
            path.touch(0o600, exist_ok=False)
        self._mine.add(entry)

    def _wake(self, queue: list[Entry]) -> None:
        """Tell the head of the queue to look again."""
        if not queue:
            return
        path = self._folder / queue[0].name
        with suppress(OSError):  # it has not opened its pipe yet, and will look once it has
            pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.write(pipe, b"!")
            finally:
                os.close(pipe)

    @contextmanager
    def _locked(self) -> Iterator[list[Entry]]:
        """Hold the ledger's lock; yields its live entries in order of their tickets."""
        try:
            lock = self._open_lock()
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield self._live_entries()
            finally:
                os.close(lock)
        except OSError as error:
            raise InfranoiseError(
                f"admission: cannot use the ledger in {self._folder}: {error.strerror}"
            ) from error

    def _open_lock(self) -> int:
        path = self._folder / "lock"
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:  # a cleaner of temporary files took the folder
            make_private(self._folder.parent)
            make_private(self._folder)
            return os.open(path, flags, 0o600)

    def _live_entries(self) -> list[Entry]:
        """Read the folder, drop what dead processes left, restore what of ours went missing."""
        births: dict[int, int | None] = {}
        alive = set()
        with os.scandir(self._folder) as listing:
            found = [entry for item in listing if (entry := Entry.parse(item.name))]
        for entry in found:
            if entry.pid not in births:
                births[entry.pid] = birth_of(entry.pid)
            if births[entry.pid] == entry.born:
                alive.add(entry)
            else:
                (self._folder / entry.name).unlink(missing_ok=True)
        for entry in self._mine - alive:
            if entry.pid == os.getpid():
                self._create(entry)
                alive.add(entry)
        return sorted(alive, key=lambda entry: (entry.ticket, entry.nonce))


def _next_entry(request: Request, state: str, nonce: str, entries: list[Entry]) -> Entry:
    pid = os.getpid()
    ticket = 1 + max((entry.ticket for entry in entries), default=0)
    return Entry(
        ticket, state, pid, birth_of_living(pid), request.memory_bytes, request.microcores, nonce
    )


def _queue(entries: Iterable[Entry]) -> list[Entry]:
    return [entry for entry in entries if entry.state == WAITING]


def _room_for(wanted: Request | Entry, entries: Iterable[Entry], budget: Budget) -> int | None:
    """Return how many grants are open, or None if a request does not fit beside them."""
    grants = [entry for entry in entries if entry.state == OPEN]
    memory = wanted.memory_bytes + sum(entry.memory_bytes for entry in grants)
    cores = wanted.microcores + sum(entry.microcores for entry in grants)
    return len(grants) if budget.has_room(memory, cores) else None
