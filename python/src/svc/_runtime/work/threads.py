"""Sync functions, several at a time: the main thread reads, a pool of `max_concurrency` threads runs.

    main     read ── dispatch ──▶ pending ──▶ thread: function ── send ── next
                        └── CANCEL: raised in the work's thread (interruption.py)
"""

from __future__ import annotations

import os
import select
import signal
import threading
from contextlib import suppress
from queue import SimpleQueue

from svc._runtime.limits import THREAD_AGAIN_S
from svc._runtime.work.answers import answer
from svc._runtime.work.interruption import ThreadInterruption
from svc._runtime.work.scarce_threads import tell_once
from svc._runtime.work.work import Work
from svc._runtime.work.worker import Worker
from svc.context import current


def _survive_handlers() -> None:
    """Python runs the handlers of imported code in this thread, which serves all jobs, and not in that of the function that a timeout
    by SIGALRM is meant for: what they raise is told, and ends no worker."""

    def surviving(handler, name: str):
        def handle(number: int, frame: object) -> None:
            try:
                handler(number, frame)
            except BaseException as error:
                raised = type(error).__name__
                said = f"[svc] the handler of {name} raised {raised}: signals reach no function that runs in a thread\n"
                with suppress(OSError):  # 2 may be closed
                    os.write(2, said.encode("utf-8", "backslashreplace"))

        return handle

    for number in signal.valid_signals() - {signal.SIGTERM}:
        handler = signal.getsignal(number)
        if callable(handler):
            signal.signal(number, surviving(handler, getattr(number, "name", f"signal {number}")))


class ThreadWorker(Worker):
    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.interruption = ThreadInterruption()
        self._wake: SimpleQueue[None] = SimpleQueue()
        """One entry for each work that may wait; a thread that finds none sleeps on."""
        self._state = threading.RLock()
        self._started = 0

    def loop(self) -> None:
        connection = self.connection
        _survive_handlers()
        # A read that a signal breaks off is begun again.
        signal.signal(signal.SIGURG, lambda *_: None)
        connection.descriptor_closed = lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGURG)
        self._start_threads()
        while True:
            while connection.early_frames:
                self.dispatch(connection.early_frames.pop(0))
            for _ in range(min(len(self.pending), self.concurrency)):
                self._wake.put(None)
            if self.draining and self.finished():
                return
            while self._started < self.concurrency and not self._readable_soon():
                self._start_threads()
            frames = connection.read()
            if frames is None:
                self.link_broke()
                connection.recover()
                continue
            for frame in frames:
                self.dispatch(frame)

    def _start_threads(self) -> None:
        """As many as the machine gives: jobs for which there is none wait here."""
        try:
            while self._started < self.concurrency:
                threading.Thread(target=self._serve, name=f"svc-job-{self._started}", daemon=True).start()
                self._started += 1
        except RuntimeError:
            tell_once()

    def _readable_soon(self) -> bool:
        poll = select.poll()
        poll.register(self.connection.fileno(), select.POLLIN)
        return bool(poll.poll(THREAD_AGAIN_S * 1000))

    def _serve(self) -> None:
        while True:
            while (work := self._next()) is not None:
                self._run(work)
            self._wake.get()

    def _next(self) -> Work | None:
        with self._state:
            if not self.pending:
                return None
            work = self.pending.popleft()
            self.begin(work)
            return work

    def _cancel(self, channel: int, reason: str) -> None:
        with self._state:
            super()._cancel(channel, reason)

    def link_broke(self) -> None:
        with self._state:
            super().link_broke()

    def finished(self) -> bool:
        with self._state:
            return super().finished()

    def _run(self, work: Work) -> None:
        current.set(work.context)
        frame = answer(self, work)
        self.end_output(work.channel)
        current.set(None)
        self.send_result(work, frame)
        self.running.pop(work.channel)  # after it was sent: another thread may end the process when nothing runs
        if self.draining and self.finished():
            self.leave("drained")  # no frame will come that would wake the main thread
