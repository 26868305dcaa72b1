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

from svc._runtime import codec, protocol
from svc._runtime.protocol import CHUNK, encode
from svc._runtime.requests import failed_reply, result_frame, stream_end, stream_part, stream_start
from svc._runtime.work import Work, bounded, call_with, failure_of, job_call, job_result, new_context, output_of
from svc._runtime.worker import Worker
from svc.context import Cancelled, current


class EventLoopWorker(Worker):
    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self._out: list[bytes] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future | None = None
        self._thread = 0

    def loop(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._thread = threading.get_ident()
        self._start_reading()
        await self._ended

    def _start_reading(self) -> None:
        self._loop.add_reader(self.connection.fileno(), self._on_readable)
        self._take(self.connection.early_frames)
        self.connection.early_frames = []

    def _on_readable(self) -> None:
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
                self._write(data)
                return
            self._flush()
        super().emit(data, keep)

    def _write(self, data: bytes) -> None:
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
            self._write(frame)
        self._begin_pending()
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
            ok, body = output_of(value)
        return job_result(work, ok, body, (perf_counter() - began) * 1000)

    async def _stream_chunks(self, work: Work, values) -> bytes:
        parts = []

        def send(value) -> None:
            parts.append(codec.encode(value))
            self.emit(encode(CHUNK, work.channel, None, parts[-1]), True)

        if isinstance(values, GeneratorType):
            await self._in_thread(lambda: [send(value) for value in values])
        else:
            async for value in values:
                send(value)
        return bounded(b"[" + b",".join(parts) + b"]")

    async def _request_frame(self, work: Work, began: float) -> bytes | None:
        bound = self.routes.bind(work)
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
        try:
            async for value in _async_values(reply.stream, self._in_thread):
                if not started:
                    self._write(stream_start(work, reply, value, began))
                    started = True
                else:
                    self._write(stream_part(work, value))
            if not started:
                self._write(stream_start(work, reply, None, began))
            self._write(stream_end(work))
        except BaseException as error:
            if not started:
                raise
            failed_reply(error, work)
            self._write(stream_end(work, failed=True))
            if isinstance(error, asyncio.CancelledError):
                return

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

    def cancel_running(self, work: Work) -> None:
        if work.task is not None:
            self._loop.call_soon_threadsafe(work.task.cancel)


async def _async_values(stream, in_thread):
    if hasattr(stream, "__aiter__"):
        async for value in stream:
            yield value
        return
    iterator = iter(stream)
    end = object()
    while (value := await in_thread(next, iterator, end)) is not end:
        yield value
