"""The frames of a reply: a whole RESULT, or a RESULT with MORE and BODY frames for its parts."""

from __future__ import annotations

import sys

from svc._runtime.http.reply import JSON_HEADERS, Reply, error_reply
from svc._runtime.limits import BODY_FRAME_BYTES, FRAME_HEAD_MAX_BYTES
from svc._runtime.link.protocol import BODY, MORE, RESULT, encode
from svc._runtime.work.work import exec_ms
from svc._values import codec
from svc._values.failure import user_traceback
from svc.context import Cancelled

NOTHING = object()
"""The first part of a stream that has none."""

_END_LINE = b'{"$svc":["end"]}\n'
"""Ends the stream to a Python caller: without it the stream broke off."""

_JSON_200 = b'{"status":200,"headers":[["content-type","application/json"]],"execMs":%.3f}'


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
        head = _head(work, reply.status, reply.headers)
    return encode(RESULT, work.channel, head, reply.body)


def _head(work, status: int, headers: list) -> bytes:
    head = codec.encode({"status": status, "headers": headers, "execMs": round(exec_ms(work), 3)})
    if len(head) > FRAME_HEAD_MAX_BYTES:
        raise ValueError(f"the headers of an answer take {len(head)} bytes, over the limit of {FRAME_HEAD_MAX_BYTES}")
    return head


def failed_reply(error: BaseException, work) -> Reply:
    """A raised exception: the log gets the traceback, the caller a plain 500, unless it is a Python peer."""
    if work.tagged:
        return _failed_reply_to_peer(error, work)
    if isinstance(error, Cancelled):
        return error_reply(
            504, "REQUEST_TIMEOUT", "The worker did not answer in time", work.cancel_reason or "cancelled"
        )
    print(user_traceback(error), end="", file=sys.stderr)
    detail = "The function failed; the endpoint's log has the details."
    return error_reply(500, "INTERNAL", "Internal error", detail)


def _failed_reply_to_peer(error: BaseException, work) -> Reply:
    """A Python caller gets what a failed job would tell it."""
    from svc._runtime.work.peer import failure_fields
    from svc.errors import JobTimedOut

    if not isinstance(error, Cancelled):
        print(user_traceback(error), end="", file=sys.stderr)
    status = 504 if isinstance(error, (Cancelled, JobTimedOut)) else 500
    headers = [["content-type", "application/json"], ["x-svc-tagged", "error"]]
    return Reply(status, headers, codec.encode(failure_fields(error, work)))


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
    head = _head(work, reply.status, headers)
    return _frames(RESULT, work, head, b"" if first is NOTHING or (first is None and not work.tagged) else _part(work, first))


def stream_part(work, value):
    """BODY frames, each to be sent while the window is open."""
    return _frames(BODY, work, None, _part(work, value))


def _part(work, value) -> bytes:
    if work.tagged:
        from svc._values import tagged

        return tagged.encode(value, "chunk") + b"\n"
    return _bytes_of(value)


def _frames(type: int, work, head: bytes | None, part: bytes):
    """A long part in pieces: no more of it is on its way than one of them beyond the window."""
    for start in range(0, len(part) or 1, BODY_FRAME_BYTES):
        piece = part[start : start + BODY_FRAME_BYTES]
        work.window -= len(piece)
        if start:
            yield encode(BODY, work.channel, None, piece, MORE)
        else:
            yield encode(type, work.channel, head, piece, MORE)


def broken_end(work, error: BaseException) -> bytes:
    """The end of a stream whose function raised."""
    failed_reply(error, work)
    if not work.tagged:
        return stream_end(work, failed=True)
    from svc._runtime.work.peer import failure_fields

    line = codec.encode({"$svc": ["error", failure_fields(error, work)]}) + b"\n"
    return b"".join(_frames(BODY, work, None, line)) + encode(BODY, work.channel)


def stream_end(work, failed: bool = False) -> bytes:
    """The last BODY frame. `failed` tells the platform to cut the response off rather than to end it well."""
    if work.tagged and not failed:
        return encode(BODY, work.channel, None, _END_LINE)
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
