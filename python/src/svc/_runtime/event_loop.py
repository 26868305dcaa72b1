"""Async functions: up to `max_concurrency` of them at once on one event loop, in the main thread.

Frames made in one turn of the loop are written together. Sync functions of the same endpoint run in threads, so
that they do not hold up the others; a cancel of such a one is only seen in `context().cancelled`. An async function
that computes without awaiting holds up everything, also the answer to PING.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from time import perf_counter
from types import AsyncGeneratorType, GeneratorType

from svc._runtime import protocol
from svc._runtime.busy_poll import LoopPoll
from svc._runtime.protocol import CHUNK, encode
from svc._runtime.requests import (
    NOTHING, broken_end, failed_reply, result_frame, stream_end, stream_part, stream_start,
)  # fmt: skip
from svc._runtime.routes import Parts
from svc._runtime.work import (
    Work, bounded, call_with, encoded, failure_of, job_call, job_result, new_context, output_of,
)  # fmt: skip
from svc._runtime.worker import Worker
from svc.context import Cancelled, current


class EventLoopWorker(Worker):
    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self._out: list[bytes] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._poll: LoopPoll | None = None
        self._ended: asyncio.Future | None = None
        self._thread = 0
        self._application = None

    def prepare(self) -> None:
        """Starts the event loop, and the ASGI application where the endpoint has one. Raises BootFailure."""
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._poll = LoopPoll(self._loop)
        self._thread = threading.get_ident()
        app = self.routes.application if self.routes is not None else None
        if app is not None:
            from svc._runtime.asgi import Application

            self._application = Application(app, self.who.endpoint, self.endpoint_id)
            self._loop.run_until_complete(self._application.lifespan.startup())

    def loop(self) -> None:
        loop = self._loop
        try:
            loop.run_until_complete(self._main())
        finally:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())

    async def _main(self) -> None:
        self._ended = self._loop.create_future()
        self._start_reading()
        await self._ended
        if self._application is not None:
            await self._application.lifespan.shutdown()

    def _start_reading(self) -> None:
        self._loop.add_reader(self.connection.fileno(), self._on_readable)
        self._take(self.connection.early_frames)
        self.connection.early_frames = []

    def _on_readable(self) -> None:
        self._poll.arrived()
        frames = self.connection.read(socket.MSG_DONTWAIT)
        if frames is None:
            self._loop.remove_reader(self.connection.fileno())
            self.link_broke()
            self._loop.create_task(self._recover())
        else:
            self._take(frames)

    async def _recover(self) -> None:
        try:
            await self._loop.run_in_executor(None, self.connection.recover)
            self._start_reading()
        except BaseException as error:
            if not self._ended.done():
                self._ended.set_exception(error)

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
        while self.pending and len(self.running) < self.concurrency:
            work = self.pending.popleft()
            new_context(work, self.who, self.reporter(work))
            self.running[work.channel] = work
            work.task = self._loop.create_task(self._run(work))

    def _end_when_finished(self) -> None:
        if self.draining and self.finished() and not self._ended.done():
            self._ended.set_result(None)

    def emit(self, data: bytes, keep: bool) -> None:
        """Frames of this turn go out in order and together; chunks, and what threads send, go at once."""
        if threading.get_ident() == self._thread:
            if not keep:
                self.write(data)
                return
            self._flush()
        super().emit(data, keep)

    def write(self, data: bytes) -> None:
        """Sends with what else this turn of the loop makes."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out:
            self.connection.send(out[0] if len(out) == 1 else b"".join(out))

    async def _run(self, work: Work) -> None:
        current.set(work.context)
        began = perf_counter()
        try:
            if work.type == protocol.JOB:
                frame = await self._job_frame(work, began)
            else:
                frame = await self._request_frame(work, began)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                error = Cancelled(work.cancel_reason or "cancelled")
            exec_ms = (perf_counter() - began) * 1000
            if work.type == protocol.JOB:
                frame = job_result(work, False, failure_of(error, self.who, work.cancel_reason), exec_ms)
            else:
                frame = result_frame(work, failed_reply(error, work), exec_ms)
        self.end_output(work.channel)
        self.running.pop(work.channel, None)
        if frame is not None:
            kept = self.connection.unacknowledged.get(work.channel)
            if kept is not None:
                kept.result = frame
            self.write(frame)
        self._begin_pending()
        if not self.running:
            self._poll.expect()
        if self.draining:
            self._flush()
            self._end_when_finished()

    async def _job_frame(self, work: Work, began: float) -> bytes:
        function, given = job_call(work, self.callables)
        if function.is_async:
            value = call_with(function, given)
        else:
            value = await self._in_thread(call_with, function, given)
        if hasattr(value, "__await__"):
            value = await value
        kind = value.__class__
        if kind is AsyncGeneratorType or kind is GeneratorType:
            ok, body = True, await self._stream_chunks(work, value)
        else:
            ok, body = output_of(work, value)
        return job_result(work, ok, body, (perf_counter() - began) * 1000)

    async def _stream_chunks(self, work: Work, values) -> bytes:
        parts = []

        def send(value) -> None:
            parts.append(encoded(work, value))
            self.emit(encode(CHUNK, work.channel, None, parts[-1]), True)

        if isinstance(values, GeneratorType):
            await self._in_thread(lambda: [send(value) for value in values])
        else:
            async for value in values:
                send(value)
        return bounded(b"[" + b",".join(parts) + b"]")

    async def _request_frame(self, work: Work, began: float) -> bytes | None:
        bound = self.routes.bind(work)
        if bound.is_application or bound.is_socket:
            work.tagged = False  # these speak for themselves
        if bound.is_application:
            await self._application.serve(work, self)
            return None
        if bound.is_socket:
            from svc._runtime.websocket_route import serve

            await serve(work, self, bound.call)
            return None
        reply = bound.reply
        if reply is None:
            if bound.is_async:
                value = bound.call()
            else:
                value = await self._in_thread(bound.call)
            if hasattr(value, "__await__"):
                value = await value
            reply = self.routes.reply_to(work, value)
        if reply.stream is None:
            return result_frame(work, reply, (perf_counter() - began) * 1000)
        await self._stream_body(work, reply, began)
        return None

    async def _stream_body(self, work: Work, reply, began: float) -> None:
        """The head goes out with the first part, because the part's kind decides the content type."""
        started = False
        values = _async_values(reply.stream, self._in_thread)
        try:
            async for value in values:
                self.write(stream_part(work, value) if started else stream_start(work, reply, value, began))
                started = True
                if work.room <= 0:
                    await self.room(work)
            if not started:
                self.write(stream_start(work, reply, NOTHING, began))
            self.write(stream_end(work))
        except BaseException as error:
            if not started:
                raise
            self.write(broken_end(work, Cancelled() if isinstance(error, asyncio.CancelledError) else error))
        finally:
            await values.aclose()

    async def room(self, work: Work) -> None:
        """Waits until the caller has taken enough of a streamed response."""
        opened = asyncio.Event()
        work.gate = opened.set
        while work.room <= 0 and not work.cancel_reason:
            await opened.wait()
            opened.clear()
        work.gate = None
        if work.cancel_reason:
            await asyncio.sleep(0)  # where the cancel arrives: code that never waits must not run on

    async def _in_thread(self, function, *arguments):
        """Runs a sync function with this task's context; SystemExit becomes a failure, not the loop's end."""
        import contextvars

        context = contextvars.copy_context()

        def guarded():
            try:
                return True, context.run(function, *arguments)
            except BaseException as error:
                return False, error

        ok, value = await self._loop.run_in_executor(self._pool(), guarded)
        if not ok:
            raise value
        return value

    def _pool(self):
        from concurrent.futures import ThreadPoolExecutor

        pool = getattr(self, "_threads", None)
        if pool is None:
            pool = self._threads = ThreadPoolExecutor(self.concurrency, "svc-job")
        return pool

    def leave(self, reason: str) -> None:
        if self._application is None:
            super().leave(reason)
        self._loop.call_soon_threadsafe(self._end_when_finished)  # its lifespan ends first

    def cancel_running(self, work: Work) -> None:
        if work.gone is not None:
            self._loop.call_soon_threadsafe(work.gone)
        elif work.task is not None:
            self._loop.call_soon_threadsafe(work.task.cancel)


async def _async_values(stream, in_thread):
    try:
        if isinstance(stream, Parts):
            for value in stream:
                yield value
        elif hasattr(stream, "__aiter__"):
            async for value in stream:
                yield value
        else:
            iterator = iter(stream)
            end = object()
            while (value := await in_thread(next, iterator, end)) is not end:
                yield value
    finally:
        if hasattr(stream, "aclose"):
            await stream.aclose()
        elif hasattr(stream, "close"):
            try:
                stream.close()
            except ValueError:
                pass  # it runs in its thread still, and ends there
