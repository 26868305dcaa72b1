"""Sync functions, one at a time, on the main thread: receive, run, send, without a thread or a loop in between.

While a function runs nobody reads the socket, so a second thread looks after jobs that take longer than a few
milliseconds: it then reads PING, CANCEL and further frames until the main thread wants the socket back.

    main     read ── release reader ── function ─────────────────── take reader ── send ── read
    watcher             (tick)  (tick: same job still runs) take reader, read … release ┘

The watcher sleeps in ticks while jobs come and parks after some ticks without one, so a quick job costs no wake-up.
CANCEL reaches the function as `Cancelled`, raised by a signal handler: it also ends sleeps and socket waits.
"""

from __future__ import annotations

import _thread
import os
import select
import signal
import socket
import threading
from time import perf_counter, sleep
from types import AsyncGeneratorType, CoroutineType, GeneratorType

from svc._runtime import protocol
from svc._runtime.busy_poll import BlockingPoll
from svc._runtime.connection import Refused, Unreachable
from svc._runtime.limits import COALESCE_S, SIGNAL_AGAIN_MS, WATCH_PARK_TICKS, WATCH_TICK_S
from svc._runtime.protocol import CHUNK, encode
from svc._runtime.work import (
    Work, bounded, call_with, encoded, failure_of, job_call, job_result, new_context, output_of,
)  # fmt: skip
from svc._runtime.worker import Worker
from svc.context import Cancelled, foreground

CANCEL_SIGNAL = signal.SIGURG  # ignored by default: harmless when user code resets it


class BlockingWorker(Worker):
    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self._out: list[bytes] = []
        self._reading = threading.Lock()
        self._wanted_read, self._wanted_write = os.pipe()
        os.set_blocking(self._wanted_read, False)
        self._sequence = 0
        self._busy = False
        self._parked = False
        self._unpark = threading.Lock()
        self._interruptible: Work | None = None
        self._interrupt: Work | None = None
        self._sending = False
        self._fatal: BaseException | None = None
        self._main = threading.get_ident()

    def loop(self) -> None:
        signal.signal(CANCEL_SIGNAL, self._on_cancel_signal)
        # Not threading.Thread: its start waits for the other side, which a cold start feels.
        _thread.start_new_thread(self._watch, ())
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
        out, self._out = self._out, []
        self.connection.send(out[0] if len(out) == 1 else b"".join(out))

    def _run(self, work: Work) -> None:
        """Runs one job or request with the socket in the watcher's care."""
        foreground.context = new_context(work, self.who, self.reporter(work))
        self.running[work.channel] = work
        self._sequence += 1
        self._busy = True
        if self._parked:
            self._parked = False
            try:
                self._unpark.release()
            except RuntimeError:
                pass
        self._reading.release()
        try:
            if work.type == protocol.JOB:
                self._run_job(work)
            else:
                self._run_request(work)
        finally:
            self._interruptible = None
            self._interrupt = None
            self._busy = False
            if not self._reading.acquire(blocking=False):
                os.write(self._wanted_write, b"x")
                self._reading.acquire()
            self.end_output(work.channel)
            del self.running[work.channel]
            foreground.context = None

    def _run_job(self, work: Work) -> None:
        began = perf_counter()
        try:
            function, given = job_call(work, self.callables)
            self._interruptible = work
            value = call_with(function, given)
            kind = value.__class__
            if kind is GeneratorType:
                ok, body = True, self._stream_chunks(work, value)
            else:
                if kind is CoroutineType or kind is AsyncGeneratorType:
                    value = _run_to_end(value)
                ok, body = output_of(work, value)
            self._interruptible = None
        except BaseException as error:
            self._interruptible = None
            ok, body = False, failure_of(error, self.who, work.cancel_reason)
        frame = job_result(work, ok, body, (perf_counter() - began) * 1000)
        kept = self.connection.unacknowledged.get(work.channel)
        if kept is not None:
            kept.result = frame
        self._out.append(frame)

    def _stream_chunks(self, work: Work, values) -> bytes:
        parts = []
        try:
            for value in values:
                part = encoded(work, value)
                parts.append(part)
                self.emit(encode(CHUNK, work.channel, None, part), True)
        finally:
            values.close()
        return bounded(b"[" + b",".join(parts) + b"]")

    def _run_request(self, work: Work) -> None:
        from svc._runtime.requests import answer_frames, failed_reply, result_frame

        began = perf_counter()
        try:
            self._interruptible = work
            reply = self.routes.answer(work)
            stream = reply.stream
            if stream is None:
                self._interruptible = None
                self._out.append(result_frame(work, reply, (perf_counter() - began) * 1000))
                return
            if self._out:
                self._flush()
            for frame in answer_frames(work, reply, began, self.await_room):
                self.emit(frame, False)
        except BaseException as error:
            self._interruptible = None
            reply = failed_reply(error, work)
            self._out.append(result_frame(work, reply, (perf_counter() - began) * 1000))
        finally:
            self._interruptible = None

    def emit(self, data: bytes, keep: bool) -> None:
        if threading.get_ident() != self._main:
            super().emit(data, keep)
            return
        self._sending = True  # a signal handler that raised here would cut a frame in two
        try:
            super().emit(data, keep)
        finally:
            self._sending = False
        if self._interrupt is not None:
            self._raise_cancelled()

    def cancel_running(self, work: Work) -> None:
        self._interrupt = work
        signal.pthread_kill(self._main, CANCEL_SIGNAL)

    def _on_cancel_signal(self, _signal, _frame) -> None:
        if self._interrupt is not None and not self._sending:
            self._raise_cancelled()

    def _raise_cancelled(self) -> None:
        work = self._interrupt
        if work is self._interruptible:
            self._interrupt = None
            raise Cancelled(work.cancel_reason)

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
                except (Refused, Unreachable) as error:
                    self._fatal = error
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
            ready = poll.poll(SIGNAL_AGAIN_MS if self._interrupt is not None else None)
            if any(fd == self._wanted_read for fd, _ in ready):
                break
            if not ready:
                signal.pthread_kill(self._main, CANCEL_SIGNAL)
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


def _run_to_end(awaitable):
    """A coroutine or async generator that a plain function returned."""
    import asyncio

    if isinstance(awaitable, AsyncGeneratorType):

        async def collect():
            return [value async for value in awaitable]

        return asyncio.run(collect())
    return asyncio.run(awaitable)
