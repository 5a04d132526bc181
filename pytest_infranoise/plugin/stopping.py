"""How a run ends early: the first signal lets running trials finish, the second kills them.

The controller alone decides. Workers ignore signals (a terminal sends Ctrl-C to all of them) and
look at two flag files instead; when the controller has died, they clean up and end by themselves.
"""

import atexit
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Literal

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_INTERRUPTED = 2
"""pytest's exit code of a session that was interrupted."""
WATCH_SECONDS = 0.2


class StopFlags:
    """The flags of a run: `stop` (start no further trial), `abort` (end at once) and others.

    `halted` holds in words why no further trial may start although nobody asked for that: costs,
    an engine that is away, the same failure over and over. `decided` holds a number of samples:
    trials of later samples are not needed any more.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stopped = False
        self._halted: str | None = None
        self._decided_after: int | None = None

    def stop(self) -> None:
        """Ask every process of the run to start no further trial."""
        self._stopped = True
        self._raise("stop")

    def abort(self) -> None:
        """Ask every worker to end at once."""
        self._raise("abort")

    def should_stop(self) -> bool:
        """Whether no further trial may start."""
        self._stopped = self._stopped or (self.folder / "stop").exists()
        return self._stopped

    def halt(self, reason: str) -> None:
        """Tell every process of the run to start no further trial, and why; the first one counts.

        Other than `stop` it is not what somebody wanted, so what did not run is said by name.
        """
        self._put("halted", reason, is_first_kept=True)

    def halted(self) -> str | None:
        """Return why the run came to a halt, None as long as it did not."""
        if self._halted is None:
            with suppress(FileNotFoundError):
                self._halted = (self.folder / "halted").read_text("utf-8")
        return self._halted

    def should_start_none(self) -> bool:
        """Whether no further trial may start, for either reason."""
        return self.should_stop() or self.halted() is not None

    def should_abort(self) -> bool:
        """Whether to end at once."""
        return (self.folder / "abort").exists()

    def decide(self, samples: int) -> None:
        """Tell every process of the run that trials of samples after this one are not needed."""
        self._decided_after = samples
        self._put("decided", str(samples))

    def needs(self, sample: int) -> bool:
        """Whether trials of this sample are needed."""
        if self._decided_after is None:
            with suppress(FileNotFoundError):
                self._decided_after = int((self.folder / "decided").read_text("ascii"))
        return self._decided_after is None or sample <= self._decided_after

    def say_owner(self, worker: str, owner: str) -> None:
        """Leave word of how a worker's sandboxes name it, for when it can say nothing any more."""
        self._put(f"owner-{worker}", owner)

    def owner_of(self, worker: str) -> str | None:
        """Return what a worker has left word of; None if it never opened an engine."""
        with suppress(FileNotFoundError):
            return (self.folder / f"owner-{worker}").read_text("utf-8")
        return None

    def leave(self, worker: str) -> None:
        """Take a worker's word back where no controller is left; the last one removes the flags."""
        (self.folder / f"owner-{worker}").unlink(missing_ok=True)
        if not any(self.folder.glob("owner-*")):
            self.clear()

    def say_order(self, text: str) -> None:
        """Leave what the ids of a worker's items do not say; it cannot send it before a test."""
        self._put("order", text)

    def order(self) -> str | None:
        """Return what a worker has left of its items' order, None if none has."""
        with suppress(FileNotFoundError):
            return (self.folder / "order").read_text("utf-8")
        return None

    def clear(self) -> None:
        """Remove the flags and their folder."""
        with suppress(FileNotFoundError):
            for file in self.folder.iterdir():
                file.unlink(missing_ok=True)
            self.folder.rmdir()

    def _make_folder(self) -> None:
        """Make the folder, and the one around it, which ledgers share and must be private too."""
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)

    def _raise(self, name: str) -> None:
        self._make_folder()
        (self.folder / name).touch()

    def _put(self, name: str, text: str, *, is_first_kept: bool = False) -> None:
        """Write a flag that says something, so that nobody reads half of it."""
        self._make_folder()
        draft = self.folder / f"{name}.{os.getpid()}"
        draft.write_text(text, "utf-8")
        if not is_first_kept:
            draft.replace(self.folder / name)
            return
        with suppress(FileExistsError):
            os.link(draft, self.folder / name)
        draft.unlink()


class SignalWatch:
    """Handles SIGINT, SIGTERM and SIGHUP alike in the process that the user started.

    Before the first trial a signal ends the session as pytest does. While trials run, the first
    asks for no further one and the second kills those that run. Once they have ended, the summary
    of what is on record is written whatever comes. The third ends the process at once, always.

    `on_stop` says so and asks the session to stop, `on_late` says that the summary is being
    written, `on_end` cleans up as far as a few seconds allow; the process ends when it returns.
    """

    def __init__(
        self,
        flags: StopFlags,
        *,
        on_stop: Callable[[], None],
        on_late: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        self._flags = flags
        self._on_stop = on_stop
        self._on_late = on_late
        self._on_end = on_end
        self._phase: Literal["preparing", "running", "closing"] = "preparing"
        self._received = 0
        self._was_stopped = False
        self._is_held = False
        self._is_due = False
        self._previous: dict[signal.Signals, Any] = {}

    @property
    def was_stopped(self) -> bool:
        """Whether a signal asked this run to end before its trials had."""
        return self._was_stopped

    def install(self) -> None:
        """Take over the signals; only the main thread can, elsewhere nothing changes.

        A hang-up that is ignored (`nohup`) stays ignored.
        """
        if threading.current_thread() is not threading.main_thread() or self._previous:
            return
        for number in SIGNALS:
            previous = signal.getsignal(number)
            if number != signal.SIGHUP or previous is not signal.SIG_IGN:
                self._previous[number] = previous
                signal.signal(number, self._handle)

    def run(self) -> None:
        """Note that trials run from now on."""
        self.install()
        self._phase = "running"

    def close(self) -> None:
        """Note that the trials have ended: what is left to do is not interrupted."""
        self._phase = "closing"

    def restore(self) -> None:
        """Give the signals back."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let what is written be written whole: a second signal raises when this ends."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            if self._is_due:
                self._is_due = False
                raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._received += 1
        if self._received > 2:
            self._end_at_once()
        elif self._phase == "closing":
            self._on_late()
        else:
            self._stop()

    def _stop(self) -> None:
        self._was_stopped = True
        is_first = self._received == 1
        if self._phase == "preparing":
            if is_first:
                raise KeyboardInterrupt
        elif is_first:
            self._flags.stop()
            self._on_stop()
        else:
            self._flags.abort()
            self._is_due = self._is_held
            if not self._is_held:
                raise KeyboardInterrupt

    def _end_at_once(self) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)  # a fourth kills
        try:
            self._flags.abort()
            self._on_end()
        finally:
            os._exit(_INTERRUPTED)


def ignore_signals() -> None:
    """Leave signals to the controller (in a worker's main thread)."""
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)


class WorkerWatch(threading.Thread):
    """Ends a worker at once when the controller has died or says `abort`.

    `clean_up` removes the worker's sandboxes; it runs twice, since an engine may still be creating
    one while the first pass looks. `worker` is the name under which this one left word.
    """

    def __init__(self, flags: StopFlags, worker: str, clean_up: Callable[[], None]) -> None:
        super().__init__(name="infranoise-watch", daemon=True)
        self._flags = flags
        self._worker = worker
        self._clean_up = clean_up
        self._parent = os.getppid()
        self._finished = threading.Event()
        # xdist raises out of a session that cannot report any more, past pytest's own last hook.
        atexit.register(self._leave)

    def run(self) -> None:
        """Watch until `finish` is called."""
        while not self._finished.wait(WATCH_SECONDS):
            if os.getppid() != self._parent or self._flags.should_abort():
                self._leave()  # first: execnet ends a worker without a controller by itself
                self._clean_up()
                time.sleep(WATCH_SECONDS)
                self._clean_up()
                os._exit(signal.SIGINT + 128)

    def _leave(self) -> None:
        """Take this worker's word back, unless a controller is there to read it and remove all."""
        if os.getppid() != self._parent:
            self._flags.leave(self._worker)

    def finish(self) -> None:
        """Stop watching."""
        self._finished.set()
