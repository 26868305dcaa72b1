"""How a cancel gets into a function that runs: as `Cancelled`, raised where the function is.

    expose ── the function ── shield ── a frame goes out ── expose ── … ── shield ── the frame that ends the work
              ▲ raised here             ▲ waits for the next expose                  ▲ too late

It comes once for each work, never while a frame is on its way out, and not at all once `run` has returned. That it
comes once is what makes `run` tight: what ends the function may be hit on its way out, what catches that may not.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from svc.context import Cancelled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from svc._runtime.work.work import Work

CANCEL_SIGNAL = signal.SIGURG  # ignored by default: harmless when user code resets it
_ARRIVAL_CALLS = 3


class Interruption:
    """What both kinds share."""

    in_child = False
    """This is a process that the function has forked: it ends where the function does."""

    def here(self) -> Work | None:
        """The work whose code is exposed in the calling thread."""
        raise NotImplementedError

    def expose(self, work: Work) -> None:
        """From here on a cancel raises `Cancelled` in this thread; one that came before does so now."""
        raise NotImplementedError

    def shield(self, work: Work) -> None:
        """Once this has returned none comes. One that is on its way is raised by it."""
        raise NotImplementedError

    def interrupt(self, work: Work) -> None:
        """Called by who reads the cancel, in another thread; the work's `cancel_reason` is set already."""
        raise NotImplementedError

    def run(self, work: Work, call, *arguments):
        """(value, None), or (None, what was raised)."""
        value = error = None
        try:
            try:
                self.expose(work)
                value = call(*arguments)
            except BaseException as raised:
                error = raised
            self.shield(work)
        except Cancelled as raised:  # on the way from there to here
            self.shield(work)
            error = raised
        if self.in_child:
            end_child(error)
        try:
            return (value, None) if error is None else (None, error)
        finally:
            error = None  # or it and this frame would hold each other

    def stop(self, work: Work) -> None:
        """Ends cancelled work from inside its own thread. Raises Cancelled."""
        self.shield(work)
        work.interrupted = True
        raise Cancelled(work.cancel_reason)

    def forked(self) -> None:
        """In a child process that user code forked."""
        self.in_child = True


class MainThreadInterruption(Interruption):
    """For functions on the main thread: raised by a signal handler, so that it also ends sleeps and socket waits."""

    def __init__(self) -> None:
        self._exposed: Work | None = None
        self._main = threading.get_ident()

    def listen(self) -> None:
        signal.signal(CANCEL_SIGNAL, self._on_signal)

    @property
    def due(self) -> Work | None:
        """What has not seen its cancel yet: a signal that comes just before a system call does not end that."""
        work = self._exposed
        return work if work is not None and work.cancel_reason and not work.interrupted else None

    def here(self) -> Work | None:
        return self._exposed if threading.get_ident() == self._main else None

    def expose(self, work: Work) -> None:
        self._exposed = work
        if work.cancel_reason:
            self._on_signal()

    def shield(self, work: Work) -> None:
        self._exposed = None

    def interrupt(self, work: Work) -> None:
        signal.pthread_kill(self._main, CANCEL_SIGNAL)

    def _on_signal(self, *_) -> None:
        work = self.due
        if work is not None:
            work.interrupted = True
            raise Cancelled(work.cancel_reason)


class ThreadInterruption(Interruption):
    """For functions in threads: raised at the thread's next Python instruction; a call that waits is not ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._exposed: dict[int, Work] = {}
        """By thread."""

    def here(self) -> Work | None:
        return self._exposed.get(threading.get_ident())

    def expose(self, work: Work) -> None:
        thread = threading.get_ident()
        with self._lock:
            if not work.cancel_reason or work.interrupted:
                work.thread = thread
                self._exposed[thread] = work
                return
            work.interrupted = True
        raise Cancelled(work.cancel_reason)

    def shield(self, work: Work) -> None:
        with self._lock:
            work.thread = 0
            self._exposed.pop(threading.get_ident(), None)
        if work.interrupted:
            for _ in range(_ARRIVAL_CALLS):
                _arrive()

    def interrupt(self, work: Work) -> None:
        import ctypes

        with self._lock:  # the thread is on this work as long as the lock is held
            if work.thread and not work.interrupted:
                work.interrupted = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(work.thread), ctypes.py_object(Cancelled))

    def forked(self) -> None:
        super().forked()
        self._lock = threading.Lock()  # another thread may have held it


def _arrive() -> None:
    """What another thread has sent is raised at a call or a turn of a loop at the latest."""


def end_child(error: BaseException | None) -> None:
    """Ends a process that the function has forked, as Python ends one: it is not the worker and answers nothing."""
    code = 0
    if isinstance(error, SystemExit):
        code = exit_code(error)
    elif error is not None:
        from svc._values.failure import user_traceback

        sys.stderr.write(user_traceback(error))
        code = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def exit_code(error: SystemExit) -> int:
    """What Python ends a process with."""
    return error.code & 0xFF if isinstance(error.code, int) else int(error.code is not None)
