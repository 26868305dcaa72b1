"""Async functions: up to `max_concurrency` of them at once on one event loop, in the main thread.

    loop     read ── dispatch ──▶ task: async function ── write ─┐
                         │        task ── thread: sync function ─┴─▶ one write for each turn of the loop
                         └── CANCEL: the task's, or raised in its thread (interruption.py)

A sync function keeps its slot until its thread has ended. An async function that computes without awaiting holds up
all others; jobs that wait on this worker are given back meanwhile (loop_watch.py).
"""

from __future__ import annotations

import asyncio
import socket
import threading

from svc._runtime.link import protocol
from svc._runtime.link.busy_poll import LoopPoll
from svc._runtime.work.answers import answer_async
from svc._runtime.work.interruption import ThreadInterruption, end_child
from svc._runtime.work.loop_watch import LoopWatch
from svc._runtime.work.scarce_threads import run_in
from svc._runtime.work.work import Work
from svc._runtime.work.worker import Worker, WorkerFailed
from svc.context import Cancelled, current


class EventLoopWorker(Worker):
    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.interruption = ThreadInterruption()
        self._out: list[bytes] = []
        self._kept: list[bytes] = []
        """Of those, what must not get lost with the link."""
        self._turn = 0
        """Counts the loop's turns in which something is sent."""
        self._sends = False
        """At the end of this turn."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._poll: LoopPoll | None = None
        self._watch = LoopWatch(self, self.take_deferred)
        self._ended: asyncio.Future | None = None
        self._thread = 0
        self._threads = None
        self._failure: WorkerFailed | None = None
        self._is_over = False
        """What still runs is lost with this process, and another worker's."""
        self._has_application = self.requests is not None and self.requests.has_application

    def prepare(self) -> None:
        """Starts the event loop, and the ASGI application where the endpoint has one. Raises BootFailure."""
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._poll = LoopPoll(self._loop)
        self._thread = threading.get_ident()
        if self._has_application:
            self._loop.run_until_complete(self.requests.start(self))

    def await_end(self, method, value) -> None:
        self._loop.run_until_complete(value)

    def loop(self) -> None:
        loop = self._loop
        try:
            loop.run_until_complete(self._main())
        finally:
            self.exit()
            self._is_over = True
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())

    async def _main(self) -> None:
        self._ended = self._loop.create_future()
        self._start_reading()
        self._end_when_finished()
        await self._ended
        if self._has_application:
            await self.requests.stop()

    def _start_reading(self) -> None:
        self._loop.add_reader(self.connection.fileno(), self._on_readable)
        with self._watch.reading:
            self._take(self.connection.early_frames)
        self.connection.early_frames = []

    def _on_readable(self) -> None:
        self._poll.arrived()
        with self._watch.reading:
            if self._watch.deferred:
                self.take_deferred()
            frames = self.connection.read(socket.MSG_DONTWAIT)
            if frames is not None:
                self._take(frames)
        if frames is None:
            self._loop.remove_reader(self.connection.fileno())
            self.link_broke()
            self._loop.create_task(self._recover())

    async def _recover(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        pool = ThreadPoolExecutor(1, "svc-link")
        try:
            await run_in(pool, self.connection.recover)
            self._start_reading()
        except BaseException as error:
            if not self._ended.done():
                self._ended.set_exception(error)
        finally:
            pool.shutdown(wait=False)

    def take_deferred(self) -> None:
        """What was read for the loop while a function held it up; what it brought may begin."""
        with self._watch.reading:
            frames, self._watch.deferred = self._watch.deferred, []
            self._take(frames)

    def _take(self, frames: list) -> None:
        for frame in frames:
            try:
                self.dispatch(frame)
            except protocol.FrameError as error:
                self._ended.set_exception(error)
                return
        self._begin_pending()
        self._end_when_finished()

    def _begin_pending(self) -> None:
        """Up to max_concurrency at once; what came in advance waits."""
        with self._watch.reading:
            while self.pending and len(self.running) < self.concurrency:
                work = self.pending.popleft()
                self.begin(work)
                work.task = self._loop.create_task(self._run(work))
                if work.type == protocol.JOB:
                    self._watch.job_began(self._loop)

    def fail(self, failure: WorkerFailed) -> None:
        """Ends the worker once what runs has ended; what has not begun goes to others."""
        self._failure = failure
        self.concurrency = 0
        self.draining = True
        self._end_when_finished()

    def _end_when_finished(self) -> None:
        if not self.draining or self._ended is None or self._ended.done():
            return
        if self._failure is not None:
            if not self.running and not self._out:
                self._ended.set_exception(self._failure)
        elif self.finished():
            self._ended.set_result(None)

    def transmit(self, data: bytes, keep: bool) -> bool:
        """Frames of this turn go out in order and together; progress, and what threads send, go at once."""
        if threading.get_ident() != self._thread:
            return super().transmit(data, keep)
        self.write(data, keep)
        if keep:
            self._flush()
        return True

    def write(self, data: bytes, keep: bool = False) -> None:
        """Sends with what else this turn of the loop makes."""
        if not self._sends:
            self._sends = True
            self._loop.call_soon(self._end_turn)
        self._out.append(data)
        if keep:
            self._kept.append(data)

    def chunk_sender(self):
        """Sends chunks with what else their turn makes; those at once whose generator has not awaited since the one before: it may compute."""
        turn = self._turn

        def send(data: bytes) -> None:
            nonlocal turn
            self.write(data, True)
            if turn == self._turn:
                self._flush()
            turn = self._turn

        return send

    def _end_turn(self) -> None:
        self._turn += 1
        self._sends = False
        self._flush()

    def _flush(self) -> None:
        out = self._out
        if out:
            self.connection.send(out[0] if len(out) == 1 else b"".join(out), self._kept)
            out.clear()
            self._kept.clear()
        if self.draining:
            self._end_when_finished()

    async def _run(self, work: Work) -> None:
        current.set(work.context)
        frame = await answer_async(self, work)
        self.end_output(work.channel)
        if frame is not None and not self._is_over:
            self.keep_result(work, frame)
            self.write(frame)
        self.running.pop(work.channel)
        if work.upload is not None:
            self._uploads.pop(work.channel, None)  # what it left of its body nobody reads
        self._begin_pending()
        if not self.running:
            self._poll.expect()
        if self.draining:
            self._flush()

    def finished(self) -> bool:
        return not self._out and super().finished()

    async def window_opens(self, work: Work) -> None:
        """Waits until the caller has taken enough of a streamed response."""
        opened = asyncio.Event()
        work.gate = opened.set
        while work.window <= 0 and not work.cancel_reason:
            await opened.wait()
            opened.clear()
        work.gate = None
        if work.cancel_reason:
            await asyncio.sleep(0)  # where the cancel arrives: code that never waits must not run on

    async def in_thread(self, work: Work, function, *arguments):
        """Runs sync code of a work in a thread, with this task's context. A cancel is raised there, and its end awaited."""
        import contextvars

        run = contextvars.copy_context().run
        work.sync = True
        try:
            value, error = await run_in(self._pool(), self.interruption.run, work, run, function, *arguments)
        finally:
            work.sync = False
        try:
            if error is None and work.cancel_reason and not work.interrupted:
                error = Cancelled(work.cancel_reason)  # it came when the thread had just ended
            if error is not None:
                raise error
        finally:
            del error
        return value

    def _pool(self):
        from concurrent.futures import ThreadPoolExecutor

        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.concurrency, "svc-job")
        return self._threads

    def forked(self) -> None:
        super().forked()
        self._watch.forked()
        if threading.get_ident() == self._thread:
            self._loop.call_soon(end_child, None)  # before it looks at descriptors, whose watch it shares with the worker

    def leave(self, reason: str) -> None:
        if not self._has_application and not self.exits:
            super().leave(reason)
        self._loop.call_soon_threadsafe(self._end_when_finished)  # what is async ends first

    def cancel_running(self, work: Work) -> None:
        if work.gone is not None:
            work.gone()
        elif work.sync:
            self.interruption.interrupt(work)
        elif work.began:  # a task that is cancelled before its first step would answer nothing
            work.interrupted = True
            work.task.cancel()
