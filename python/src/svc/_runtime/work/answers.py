"""Runs a work's function and makes the frames that answer it, the same for every way to run.

    job      function ─▶ value ─────────────────────────────▶ RESULT
                     └─▶ generator ─▶ CHUNK … ──────────────▶ RESULT with all of them
    request  route ────▶ value ─────────────────────────────▶ RESULT                        (http/requests.py)
                     └─▶ generator ─▶ RESULT, BODY … (MORE) ─▶ last BODY
    what is raised ─────────────────────────────────────────▶ a failed RESULT, or a last BODY that says so

Frames in between go out while the function runs. The last one is returned, so that there is one, whatever happens.
"""

from __future__ import annotations

from time import perf_counter
from types import AsyncGeneratorType, CoroutineType, GeneratorType

from svc._runtime.limits import RESULT_MAX_BYTES
from svc._runtime.link.protocol import CHUNK, JOB, encode
from svc._runtime.work.interruption import end_child
from svc._runtime.work.work import Work, call_with, encoded, failure_fields, job_call, job_result, output_of, too_large
from svc._values import codec
from svc._values.failure import BadInput
from svc.context import Cancelled


def answer(worker, work: Work) -> bytes:
    """Runs sync code in this thread, where a cancel reaches it. Returns the frame that ends the work."""
    work.began = perf_counter()
    run = _job if work.type == JOB else worker.requests.answer
    frame, error = worker.interruption.run(work, run, worker, work)
    return frame if error is None else _failed(worker, work, error)


async def answer_async(worker, work: Work) -> bytes | None:
    """Runs code on the worker's event loop, sync functions in its threads. None: it has ended the work by itself."""
    work.began = perf_counter()
    run = _job_async if work.type == JOB else worker.requests.answer_async
    try:
        if work.cancel_reason:  # it came when the task was there and had not begun
            worker.interruption.stop(work)
        frame = await run(worker, work)
    except BaseException as error:
        import asyncio

        if worker.interruption.in_child:
            end_child(error)
        return _failed(worker, work, Cancelled() if isinstance(error, asyncio.CancelledError) else error)
    if worker.interruption.in_child:
        end_child(None)
    return frame


def _failed(worker, work: Work, error: BaseException) -> bytes:
    if work.type != JOB:
        return worker.requests.failed(work, error)
    failure = failure_fields(error, worker.who, work.cancel_reason)
    if not isinstance(error, (BadInput, Cancelled)):  # faults of the code
        worker.log_traceback(work, failure["error_traceback"])
    return job_result(work, False, codec.encode(failure), raised=_may_follow(worker, work, error))


def _may_follow(worker, work: Work, error: BaseException) -> bool:
    """Whether another attempt may: not where the same would come of it, or chunks are with the caller."""
    if work.cancel_reason or work.started or isinstance(error, (BadInput, Cancelled, codec.NotJson)):
        return False
    return isinstance(error, Exception) if worker.retries is None else worker.retries.wants(error)


def _job(worker, work: Work) -> bytes:
    function, given = job_call(work, worker.callables)
    value = call_with(function, given)
    kind = value.__class__
    if kind is GeneratorType:
        return job_result(work, True, _stream(worker, work, value))
    if kind is CoroutineType or kind is AsyncGeneratorType:
        value = _run_to_end(value)
    ok, body = output_of(work, value)
    return job_result(work, ok, body)


def _stream(worker, work: Work, values) -> bytes:
    chunks = Chunks(work, lambda frame: worker.emit(frame, True))
    try:
        for value in values:
            chunks.add(value)
    finally:
        values.close()
    return chunks.whole()


async def _job_async(worker, work: Work) -> bytes:
    function, given = job_call(work, worker.callables)
    if function.is_async:
        value = call_with(function, given)
    else:
        value = await worker.in_thread(work, call_with, function, given)
    if hasattr(value, "__await__"):
        value = await value
    kind = value.__class__
    if kind is GeneratorType:
        return job_result(work, True, await worker.in_thread(work, _stream, worker, work, value))
    if kind is AsyncGeneratorType:
        chunks = Chunks(work, worker.chunk_sender())
        async for item in value:
            chunks.add(item)
        return job_result(work, True, chunks.whole())
    ok, body = output_of(work, value)
    return job_result(work, ok, body)


class Chunks:
    """The yields of a job: each goes out as it comes, all of them are its output."""

    __slots__ = ("_parts", "_send", "_size", "_work")

    def __init__(self, work: Work, send) -> None:
        self._send = send
        self._work = work
        self._parts: list[bytes] = []
        work.started = True
        self._size = 2

    def add(self, value) -> None:
        """Raises NotJson, also when it is too much for one result."""
        part = encoded(self._work, value)
        self._size += len(part) + 1
        if self._size > RESULT_MAX_BYTES:
            raise too_large(f"what the function yielded takes over {RESULT_MAX_BYTES} bytes")
        self._parts.append(part)
        self._send(encode(CHUNK, self._work.channel, None, part))

    def whole(self) -> bytes:
        return b"[" + b",".join(self._parts) + b"]"


def _run_to_end(awaitable):
    """A coroutine or async generator that a plain function returned, in a worker without an event loop."""
    import asyncio

    if isinstance(awaitable, AsyncGeneratorType):

        async def collect():
            return [value async for value in awaitable]

        return asyncio.run(collect())
    return asyncio.run(awaitable)
