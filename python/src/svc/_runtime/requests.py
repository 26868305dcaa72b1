"""Frames that answer a request of a load-balanced endpoint: a whole RESULT, or a RESULT with MORE and BODY frames."""

from __future__ import annotations

import sys
from time import perf_counter

from svc._runtime import codec
from svc._runtime.failure import user_traceback
from svc._runtime.limits import BODY_FRAME_BYTES
from svc._runtime.protocol import BODY, MORE, RESULT, encode
from svc._runtime.routes import JSON_HEADERS, Reply, error_reply
from svc.context import Cancelled

NOTHING = object()
"""The first part of a stream that has none."""

_JSON_200 = b'{"status":200,"headers":[["content-type","application/json"]],"execMs":%.3f}'


def result_frame(work, reply: Reply, exec_ms: float) -> bytes:
    """The frame of a whole reply."""
    if reply.status == 200 and reply.headers is JSON_HEADERS:
        head = _JSON_200 % exec_ms
    else:
        head = codec.encode({"status": reply.status, "headers": reply.headers, "execMs": round(exec_ms, 3)})
    return encode(RESULT, work.channel, head, reply.body)


def failed_reply(error: BaseException, work) -> Reply:
    """A raised exception: the log gets the traceback, the caller a plain 500, unless it is a Python peer."""
    if work.tagged:
        from svc._runtime import peer

        return peer.failed_reply(error, work)
    if isinstance(error, Cancelled):
        return error_reply(
            504, "REQUEST_TIMEOUT", "The worker did not answer in time", work.cancel_reason or "cancelled"
        )
    print(user_traceback(error), end="", file=sys.stderr)
    detail = "The function failed; the endpoint's log has the details."
    return error_reply(500, "INTERNAL", "Internal error", detail)


def answer_frames(work, reply: Reply, began: float, await_room):
    """Frames of a streamed reply of sync code, as its parts come; `await_room(work)` holds it while its caller is slow."""
    stream = reply.stream
    if not hasattr(stream, "__iter__"):
        stream = _driven(stream)
    started = False
    try:
        for value in stream:
            yield stream_part(work, value) if started else stream_start(work, reply, value, began)
            started = True
            if work.room <= 0:
                await_room(work)
    except BaseException as error:
        if not started:
            raise
        yield broken_end(work, error)
        return
    finally:
        close = getattr(stream, "close", None)
        if close is not None:
            close()
    if not started:
        yield stream_start(work, reply, NOTHING, began)
    yield stream_end(work)


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


def stream_start(work, reply: Reply, first, began: float) -> bytes:
    """The RESULT frame with the first part, whose kind gives the content type when the function gave none."""
    headers = reply.headers
    if not any(name == "content-type" for name, _ in headers):
        headers = [["content-type", _kind_of(first)], *headers]
    head = {"status": reply.status, "headers": headers, "execMs": round((perf_counter() - began) * 1000, 3)}
    return _frames(RESULT, work, codec.encode(head), b"" if first is NOTHING or (first is None and not work.tagged) else _part(work, first))


def stream_part(work, value) -> bytes:
    return _frames(BODY, work, None, _part(work, value))


def _part(work, value) -> bytes:
    if work.tagged:
        from svc._runtime import peer

        return peer.line_of(value)
    return _bytes_of(value)


def _frames(type: int, work, head: bytes | None, part: bytes) -> bytes:
    work.room -= len(part)
    if len(part) <= BODY_FRAME_BYTES:
        return encode(type, work.channel, head, part, MORE)
    frames = [encode(type, work.channel, head, part[:BODY_FRAME_BYTES], MORE)]
    for start in range(BODY_FRAME_BYTES, len(part), BODY_FRAME_BYTES):
        frames.append(encode(BODY, work.channel, None, part[start : start + BODY_FRAME_BYTES], MORE))
    return b"".join(frames)


def broken_end(work, error: BaseException) -> bytes:
    """The end of a stream whose function raised."""
    failed_reply(error, work)
    if not work.tagged:
        return stream_end(work, failed=True)
    from svc._runtime import peer

    return _frames(BODY, work, None, peer.error_line(error, work)) + encode(BODY, work.channel)


def stream_end(work, failed: bool = False) -> bytes:
    """The last BODY frame. `failed` tells the platform to cut the response off rather than to end it well."""
    if work.tagged and not failed:
        from svc._runtime import peer

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
