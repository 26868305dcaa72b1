"""Requests of a load-balanced endpoint: runs the route and answers with a whole RESULT, or a RESULT with MORE and BODY frames."""

from __future__ import annotations

import sys

from svc._runtime.http.routes import JSON_HEADERS, Parts, Reply, error_reply
from svc._runtime.limits import BODY_FRAME_BYTES
from svc._runtime.link.protocol import BODY, MORE, RESULT, encode
from svc._runtime.work.work import exec_ms
from svc._values import codec
from svc._values.failure import user_traceback
from svc.context import Cancelled

NOTHING = object()
"""The first part of a stream that has none."""

_JSON_200 = b'{"status":200,"headers":[["content-type","application/json"]],"execMs":%.3f}'


def answer(worker, work) -> bytes:
    """Runs the route in this thread. Returns the frame that ends the work; those of a stream before it are out."""
    reply = worker.routes.answer(work)
    values = reply.stream
    if values is None:
        return result_frame(work, reply)
    if not hasattr(values, "__iter__"):
        values = _driven(values)
    try:
        for value in values:
            for frame in stream_frames(work, reply, value):
                worker.emit(frame, False, work)
                if work.room <= 0:
                    worker.await_room(work)
    finally:
        close = getattr(values, "close", None)
        if close is not None:
            close()
    return last_frame(work, reply)


async def answer_async(worker, work) -> bytes | None:
    """Runs the route on the event loop, a sync one in a thread. None: the application or socket has ended the work itself."""
    bound = worker.routes.bind(work)
    if bound.is_application or bound.is_socket:
        work.tagged = False  # these speak for themselves
        await worker.serve(work, bound)
        return None
    reply = bound.reply
    if reply is None:
        value = bound.call() if bound.is_async else await worker.in_thread(work, bound.call)
        if hasattr(value, "__await__"):
            value = await value
        reply = worker.routes.reply_to(work, value)
    if reply.stream is None:
        return result_frame(work, reply)
    values = _async_values(worker, work, reply.stream)
    try:
        async for value in values:
            for frame in stream_frames(work, reply, value):
                worker.write(frame)
                work.started = True
                if work.room <= 0:
                    await worker.room(work)
    finally:
        await values.aclose()
    return last_frame(work, reply)


async def _async_values(worker, work, stream):
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
            while (value := await worker.in_thread(work, next, iterator, end)) is not end:
                yield value
    finally:
        if hasattr(stream, "aclose"):
            await stream.aclose()
        elif hasattr(stream, "close"):
            stream.close()


def failed(work, error: BaseException) -> bytes:
    """The frame that ends the work when its function raised."""
    if work.started:
        return broken_end(work, error)
    return result_frame(work, failed_reply(error, work))


def result_frame(work, reply: Reply) -> bytes:
    """The frame of a whole reply."""
    if reply.status == 200 and reply.headers is JSON_HEADERS:
        head = _JSON_200 % exec_ms(work)
    else:
        head = codec.encode({"status": reply.status, "headers": reply.headers, "execMs": round(exec_ms(work), 3)})
    return encode(RESULT, work.channel, head, reply.body)


def failed_reply(error: BaseException, work) -> Reply:
    """A raised exception: the log gets the traceback, the caller a plain 500, unless it is a Python peer."""
    if work.tagged:
        from svc._runtime.work import peer

        return peer.failed_reply(error, work)
    if isinstance(error, Cancelled):
        return error_reply(
            504, "REQUEST_TIMEOUT", "The worker did not answer in time", work.cancel_reason or "cancelled"
        )
    print(user_traceback(error), end="", file=sys.stderr)
    detail = "The function failed; the endpoint's log has the details."
    return error_reply(500, "INTERNAL", "Internal error", detail)


def _driven(stream):
    """An async iterable in a worker without an event loop."""
    import asyncio

    loop = asyncio.new_event_loop()
    try:
        iterator = stream.__aiter__()
        while True:
            try:
                yield loop.run_until_complete(iterator.__anext__())
            except StopAsyncIteration:
                return
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def stream_frames(work, reply: Reply, value):
    """One part of a streamed reply; the head goes out with the first, because its kind decides the content type."""
    return stream_part(work, value) if work.started else stream_start(work, reply, value)


def last_frame(work, reply: Reply) -> bytes:
    """The end of a streamed reply, which may have had no part."""
    return stream_end(work) if work.started else b"".join(stream_start(work, reply, NOTHING)) + stream_end(work)


def stream_start(work, reply: Reply, first):
    """The RESULT frame with the first part, whose kind gives the content type when the function gave none; BODY frames when that is long."""
    headers = reply.headers
    if not any(name == "content-type" for name, _ in headers):
        headers = [["content-type", _kind_of(first)], *headers]
    head = {"status": reply.status, "headers": headers, "execMs": round(exec_ms(work), 3)}
    return _frames(RESULT, work, codec.encode(head), b"" if first is NOTHING or (first is None and not work.tagged) else _part(work, first))


def stream_part(work, value):
    """BODY frames, each to be sent while there is room."""
    return _frames(BODY, work, None, _part(work, value))


def _part(work, value) -> bytes:
    if work.tagged:
        from svc._runtime.work import peer

        return peer.line_of(value)
    return _bytes_of(value)


def _frames(type: int, work, head: bytes | None, part: bytes):
    """A long part in pieces: no more of it is on its way than one of them beyond the window."""
    for start in range(0, len(part) or 1, BODY_FRAME_BYTES):
        piece = part[start : start + BODY_FRAME_BYTES]
        work.room -= len(piece)
        if start:
            yield encode(BODY, work.channel, None, piece, MORE)
        else:
            yield encode(type, work.channel, head, piece, MORE)


def broken_end(work, error: BaseException) -> bytes:
    """The end of a stream whose function raised."""
    failed_reply(error, work)
    if not work.tagged:
        return stream_end(work, failed=True)
    from svc._runtime.work import peer

    return b"".join(_frames(BODY, work, None, peer.error_line(error, work))) + encode(BODY, work.channel)


def stream_end(work, failed: bool = False) -> bytes:
    """The last BODY frame. `failed` tells the platform to cut the response off rather than to end it well."""
    if work.tagged and not failed:
        from svc._runtime.work import peer

        return encode(BODY, work.channel, None, peer.END_LINE)
    return encode(BODY, work.channel, {"failed": True} if failed else None)


def _kind_of(value) -> str:
    if isinstance(value, (bytes, bytearray)):
        return "text/event-stream" if value.startswith((b"data:", b"event:")) else "application/octet-stream"
    if isinstance(value, str):
        is_event = value.startswith(("data:", "event:", "id:", "retry:", ":"))
        return "text/event-stream" if is_event else "text/plain; charset=utf-8"
    return "application/x-ndjson"


def _bytes_of(value) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    return codec.encode(value) + b"\n"
