"""Sync functions, several at a time: the main thread reads, a pool of `max_concurrency` threads runs.

    main     read ── dispatch ──▶ pending ──▶ thread: function ── send ── next
                        └── CANCEL: raised in the work's thread (interruption.py)
"""

from __future__ import annotations

import threading
from queue import SimpleQueue

from svc._runtime.work.answers import answer
from svc._runtime.work.interruption import ThreadInterruption
from svc._runtime.work.work import Work
from svc._runtime.work.worker import Worker
from svc.context import current


class ThreadWorker(Worker):
    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.interruption = ThreadInterruption()
        self._wake: SimpleQueue[None] = SimpleQueue()
        """One entry for each work that may wait; a thread that finds none sleeps on."""
        self._state = threading.RLock()

    def loop(self) -> None:
        for number in range(self.concurrency):
            threading.Thread(target=self._serve, name=f"svc-job-{number}", daemon=True).start()
        connection = self.connection
        while True:
            while connection.early_frames:
                self.dispatch(connection.early_frames.pop(0))
            for _ in range(min(len(self.pending), self.concurrency)):
                self._wake.put(None)
            if self.draining and self.finished():
                return
            frames = connection.read()
            if frames is None:
                self.link_broke()
                connection.recover()
                continue
            for frame in frames:
                self.dispatch(frame)

    def _serve(self) -> None:
        while True:
            self._wake.get()
            while (work := self._next()) is not None:
                self._run(work)

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
