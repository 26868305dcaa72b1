"""The nursery: a fresh interpreter that has imported what every worker needs; every zygote is a fork of it.

    launcher ── a zygote's number, channel and output pipes ──▶ nursery ── fork ──▶ (ends at once) ── fork ──▶ zygote
             ◀── the number and its pid ──────────────────────

A zygote runs user code, so nothing may be in its memory that belongs to others: the launcher's token, and the variables
and tokens of other endpoints' workers. The nursery never has them: it is executed, not forked, and is told nothing but
numbers. By the double fork the zygote is a child of the launcher, the subreaper.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from collections import deque
from time import monotonic

from svc._runtime.confine import kernel
from svc._runtime.limits import NURSERY_REQUESTS_MAX, RESTART_FIRST_S, RESTART_STEP_MAX_S
from svc._runtime.process import log, new_process
from svc._runtime.process.new_process import execute, fork_apart
from svc._runtime.process.worker_record import how_it_ended
from svc._runtime.process.zygote import receive_message, send_message
from svc._runtime.process.zygote import serve as serve_zygote


class Nursery:
    """The launcher's side: starts the process, never waits for it, and replaces it when it ends.

    `events` gets `born(number, pid)` or `unborn(number, why)` for each request.
    """

    def __init__(self, poll: select.poll) -> None:
        self._poll = poll
        self._channel: socket.socket | None = None
        self._queue: deque[tuple[int, tuple[int, ...], str]] = deque()
        """Requests that were not sent: number, descriptors, way."""
        self._asked: set[int] = set()
        """Requests that were sent and not answered."""
        self._pause = 0.0
        self.events = None
        self.pid = 0
        self.look_at: float | None = None
        """When to call `on_time` next."""
        self._start()

    @property
    def descriptor(self) -> int:
        return -1 if self._channel is None else self._channel.fileno()

    @property
    def bears(self) -> bool:
        """A child of the launcher may be a zygote whose pid has not been told yet."""
        return bool(self._asked)

    def request(self, number: int, descriptors: tuple[int, ...], way: str) -> None:
        """A zygote, please: its channel and outputs, which are closed here, and how its namespaces are made."""
        self._queue.append((number, descriptors, way))
        self._send()

    def read(self) -> None:
        """Its answers."""
        while self._channel is not None:
            try:
                message, _ = receive_message(self._channel)
            except BlockingIOError:
                break
            if message is None:
                self._close_channel()  # its end is reaped next
                break
            self._asked.discard(message["number"])
            self._pause = 0.0
            if "pid" in message:
                self.events.born(message["number"], message["pid"])
            else:
                self.events.unborn(message["number"], message["why"])
        self._send()

    def reaped(self, code: int) -> None:
        """It has ended: another takes its place."""
        self.read()
        self._close_channel()
        self.pid = 0
        how = how_it_ended(code)
        self._plan_start()
        asked, self._asked = self._asked, set()
        log.tell(f"launcher: the nursery, of which new workers descend, {how}; another one is started")
        for number in asked:
            self.events.unborn(number, f"the process that it descends from {how}")

    def on_time(self) -> None:
        if self.look_at is not None and monotonic() >= self.look_at:
            self._start()

    def _start(self) -> None:
        self.look_at = None
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                self.pid = execute(sys.executable, "svc._runtime.process.nursery", theirs, 1, 2)
            except OSError:
                ours.close()
                raise
            finally:
                theirs.close()
        except OSError:
            self._plan_start()
            return
        ours.setblocking(False)
        self._channel = ours
        self._poll.register(ours, select.POLLIN)
        self._send()

    def _plan_start(self) -> None:
        self.look_at = monotonic() + self._pause
        self._pause = min(self._pause * 2, RESTART_STEP_MAX_S) if self._pause else RESTART_FIRST_S

    def _send(self) -> None:
        """A few at a time: what waits does so here, where nobody else waits for it."""
        while self._channel is not None and self._queue and len(self._asked) < NURSERY_REQUESTS_MAX:
            number, descriptors, way = self._queue[0]
            try:
                send_message(self._channel, {"number": number, "namespaces": way}, descriptors)
            except OSError:
                return  # it has ended, and its successor is asked
            self._queue.popleft()
            self._asked.add(number)
            for descriptor in descriptors:
                os.close(descriptor)

    def _close_channel(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            self._poll.unregister(channel)
            channel.close()


def main(descriptor: int) -> None:
    """Entry of the nursery's own process."""
    kernel.die_with_parent()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=descriptor)
    # What every worker needs: imported once, shared by all forks.
    import svc
    import svc._runtime.work.blocking  # noqa: F401

    assert svc
    from svc._runtime.process.rehearsal import rehearse

    rehearse()
    gc.collect()
    gc.freeze()
    gc.disable()
    while True:
        message, descriptors = receive_message(channel)
        if message is None:
            os._exit(0)
        answer = {"number": message["number"]}
        try:
            answer["pid"] = fork_apart(message["namespaces"], lambda: _become_zygote(channel, *descriptors))
        except OSError as error:
            answer["why"] = error.strerror
        for each in descriptors:
            os.close(each)
        try:
            send_message(channel, answer)
        except OSError:
            os._exit(0)  # Who asked is gone.


def _become_zygote(nursery: socket.socket, descriptor: int, stdout: int, stderr: int) -> None:
    try:
        nursery.close()
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        new_process.use_as_output(stdout, stderr)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.reconfigure(line_buffering=True)
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=descriptor)
        start, group = receive_message(channel)
        if start is not None:
            serve_zygote(channel, start, group)
    except BaseException as error:
        log.tell(f"zygote failed: {error!r}")
    finally:
        os._exit(70)
