"""Reads for an event loop that a function holds up, so that jobs which wait behind it can be given back.

    loop     read … read │ task computes without awaiting                  │ read …
    watcher  turn? yes     turn? no ─▶ reads: jobs wait, recalls are answered ─▶ the rest goes to the loop

Only one of the two reads at a time: who holds `reading`.
"""

from __future__ import annotations

import select
import socket
import threading

from svc._runtime.limits import LOOP_HELD_UP_S
from svc._runtime.link import protocol
from svc._runtime.link.protocol import FrameError, parse_head
from svc._runtime.work.scarce_threads import start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from typing import Callable

    from svc._runtime.work.worker import Worker


class LoopWatch:
    def __init__(self, worker: Worker, take_deferred: Callable[[], None]) -> None:
        """`take_deferred` is called on the loop when there is something in `deferred`."""
        self._worker = worker
        self._take_deferred = take_deferred
        self.reading = threading.RLock()
        """Also held where jobs that wait begin."""
        self.deferred: list = []
        """Frames that it read and only the loop may take: before any that it reads itself."""
        self._runs = threading.Event()
        self._began = False

    def job_began(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._runs.is_set():
            return
        if not self._began:
            self._began = start_thread(self._watch, loop)
        if self._began:
            self._runs.set()

    def forked(self) -> None:
        self.reading = threading.RLock()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        worker = self._worker
        while True:
            self._runs.wait()
            turned = threading.Event()
            try:
                loop.call_soon_threadsafe(turned.set)
            except RuntimeError:
                return  # It is closed: the worker ends.
            if not turned.wait(LOOP_HELD_UP_S):
                self._read_until(turned, loop)
            elif not worker.running:
                self._runs.clear()
                if worker.running:
                    self._runs.set()
            else:
                turned.clear()
                turned.wait(LOOP_HELD_UP_S)

    def _read_until(self, turned: threading.Event, loop: asyncio.AbstractEventLoop) -> None:
        connection = self._worker.connection
        while not turned.is_set():
            poll = select.poll()
            poll.register(connection.fileno(), select.POLLIN)
            if not poll.poll(LOOP_HELD_UP_S * 1000):
                continue
            with self.reading:
                if turned.is_set() or not connection.up:
                    return
                frames = connection.read(socket.MSG_DONTWAIT)
                if frames is None:
                    return  # The loop finds that out, too.
                self.deferred += [frame for frame in frames if not self._taken(frame)]
            loop.call_soon_threadsafe(self._take_deferred)

    def _taken(self, frame: tuple) -> bool:
        """Whether it could be dealt with outside the loop."""
        try:
            type, head = frame[0], frame[3]
            recalls = type == protocol.CANCEL and parse_head(head).get("reason") == "recalled"
            if not recalls and type not in (protocol.JOB, protocol.ACK, protocol.PING):
                return False
            self._worker.dispatch(frame)
            return True
        except FrameError:
            return False  # The loop ends with it.
