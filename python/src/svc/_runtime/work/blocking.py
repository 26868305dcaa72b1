"""Sync functions, one at a time, on the main thread: receive, run, send, without a thread or a loop in between.

While a function runs nobody reads the socket, so a second thread looks after jobs that take longer than a few
milliseconds: it then reads PING, CANCEL and further frames until the main thread wants the socket back.

    main     read ── release reader ── function ─────────────────── take reader ── send ── read
    watcher             (tick)  (tick: same job still runs) take reader, read … release ┘

The watcher sleeps in ticks while jobs come and parks after some ticks without one, so a quick job costs no wake-up.
CANCEL is raised in the function by a signal handler (interruption.py).
"""

from __future__ import annotations

import os
import select
import socket
import threading
from time import perf_counter, sleep

from svc._runtime.limits import COALESCE_S, SIGNAL_AGAIN_MS, WATCH_PARK_TICKS, WATCH_TICK_S
from svc._runtime.link.busy_poll import BlockingPoll
from svc._runtime.work.answers import answer
from svc._runtime.work.interruption import MainThreadInterruption
from svc._runtime.work.scarce_threads import start_thread
from svc._runtime.work.work import Work
from svc._runtime.work.worker import Worker
from svc.context import foreground


class BlockingWorker(Worker):
    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.interruption = MainThreadInterruption()
        self._out: list[bytes] = []
        self._reading = threading.Lock()
        self._wanted_read, self._wanted_write = os.pipe()
        os.set_blocking(self._wanted_read, False)
        self._sequence = 0
        self._busy = False
        self._watched = False
        self._parked = False
        self._unpark = threading.Lock()
        self._fatal: BaseException | None = None

    def loop(self) -> None:
        self.interruption.listen()
        self._parked = True
        self._wake_watch()
        connection = self.connection
        pending = self.pending
        dispatch = self.dispatch
        self._reading.acquire()
        read = BlockingPoll(connection.read).read
        first_unsent = 0.0
        while True:
            while connection.early_frames:
                dispatch(connection.early_frames.pop(0))
            while pending:
                now = perf_counter()
                if not self._out:
                    first_unsent = now
                elif now - first_unsent > COALESCE_S:
                    self._flush()
                self._run(pending.popleft())
            if self._out:
                self._flush()
            if self.draining and self.finished():
                return
            if self._fatal is not None:
                raise self._fatal
            frames = read()
            if frames is None:
                self.link_broke()
                connection.recover()
                continue
            for frame in frames:
                dispatch(frame)

    def _flush(self) -> None:
        out = self._out
        self.connection.send(out[0] if len(out) == 1 else b"".join(out))
        out.clear()

    def finished(self) -> bool:
        return not self._out and super().finished()

    def _run(self, work: Work) -> None:
        """Runs one job or request with the socket in the watcher's care."""
        foreground.context = self.begin(work)
        self._sequence += 1
        self._busy = True
        if self._parked:
            self._wake_watch()
        self._reading.release()
        frame = answer(self, work)
        self._busy = False
        if not self._reading.acquire(blocking=False):
            os.write(self._wanted_write, b"x")
            self._reading.acquire()
        self.end_output(work.channel)
        self.keep_result(work, frame)
        self._out.append(frame)
        del self.running[work.channel]
        foreground.context = None

    def _wake_watch(self) -> None:
        """Without a thread the function runs all the same: nobody reads meanwhile, and the next one looks for a thread again."""
        if not self._watched:
            self._watched = start_thread(self._watch)
            return
        self._parked = False
        try:
            self._unpark.release()
        except RuntimeError:
            pass

    def _watch(self) -> None:
        idle_ticks = WATCH_PARK_TICKS
        seen = 0
        self._unpark.acquire()
        while True:
            if idle_ticks >= WATCH_PARK_TICKS:
                self._parked = True
                if not self._busy:
                    self._unpark.acquire()
                self._parked = False
                idle_ticks = 0
            sleep(WATCH_TICK_S)
            if not self._busy:
                idle_ticks += 1
                continue
            idle_ticks = 0
            if self._sequence != seen:
                seen = self._sequence
            elif self._reading.acquire(blocking=False):
                try:
                    self._attend()
                except BaseException as error:  # Refused, Unreachable, or a fault of ours
                    self._fatal = error
                    return
                finally:
                    self._reading.release()

    def _attend(self) -> None:
        """Reads for the main thread until it wants the socket back."""
        if self._out:
            self._flush()
        connection = self.connection
        while self._busy:
            poll = select.poll()
            poll.register(self._wanted_read, select.POLLIN)
            poll.register(connection.fileno(), select.POLLIN)
            # A signal that comes just before a system call does not end it, so it is sent until it was seen.
            due = self.interruption.due
            ready = poll.poll(None if due is None else SIGNAL_AGAIN_MS)
            if any(fd == self._wanted_read for fd, _ in ready):
                break
            if not ready:
                self.interruption.interrupt(due)
                continue
            frames = connection.read(socket.MSG_DONTWAIT)
            if frames is None:
                self.link_broke()
                if not connection.recover(lambda: self._busy):
                    break
                frames, connection.early_frames = connection.early_frames, []
            for frame in frames:
                self.dispatch(frame)
        try:
            os.read(self._wanted_read, 64)
        except BlockingIOError:
            pass
