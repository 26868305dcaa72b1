"""Replies: what a route's function returned becomes a status, headers and a body, or a stream."""

from __future__ import annotations

from operator import index
from types import AsyncGeneratorType, GeneratorType

from svc._runtime.limits import LOAD_BALANCED_BODY_MAX_BYTES, STREAM_WINDOW_BYTES
from svc._values import codec
from svc.response import Response

JSON_HEADERS = [["content-type", "application/json"]]


class Reply:
    """What goes back. `stream`, when there is one, is an iterable (or async iterable) of parts in place of `body`.

    Raises TypeError when the status is no whole number: the platform would take it for a broken worker.
    """

    __slots__ = ("body", "headers", "status", "stream")

    def __init__(self, status: int, headers: list, body: bytes = b"", stream=None) -> None:
        self.status = status if status.__class__ is int else _whole(status)
        self.headers = headers
        self.body = body
        self.stream = stream


def _whole(status) -> int:
    try:
        return index(status)
    except TypeError:
        raise TypeError(f"the status of an answer is a whole number, not {status!r}") from None


def error_reply(status: int, code: str, title: str, detail: str) -> Reply:
    body = {"error": detail, "status": status, "title": title, "detail": detail, "code": code}
    return Reply(status, JSON_HEADERS, codec.encode(body))


def reply_of(value) -> Reply:
    kind = value.__class__
    if kind is dict or kind is list or kind is str or value is None:
        return Reply(200, JSON_HEADERS, codec.encode(value))
    if kind is tuple and len(value) in (2, 3) and is_status(value[1]):
        headers = value[2] if len(value) == 3 else {}
        return _full_reply(value[0], value[1], headers, None)
    if isinstance(value, Response):
        return _full_reply(value.body, value.status, value.headers, value, value.media_type)
    return _full_reply(value, 200, {}, None)


def is_status(value) -> bool:
    return value.__class__ is int and 100 <= value <= 599


def _full_reply(body, status: int, given_headers, response, media_type: str | None = None) -> Reply:
    headers = [[str(name).lower(), str(value)] for name, value in _pairs(given_headers)]
    for name, value in headers:
        if "\n" in value or "\r" in value or "\0" in value:
            raise ValueError(f"header {name!r} holds a line break")
    media_type = media_type and str(media_type)
    content_type = media_type or next((value for name, value in headers if name == "content-type"), None)
    has_type = any(name == "content-type" for name, _ in headers)

    def typed(default: str) -> list:
        return headers if has_type else [["content-type", media_type or default], *headers]

    if isinstance(body, Response):
        return reply_of(body)
    if isinstance(body, (GeneratorType, AsyncGeneratorType)) or hasattr(body, "__aiter__") or hasattr(body, "__next__"):
        return Reply(status, headers if has_type or not media_type else typed(""), b"", body)
    if isinstance(body, (bytes, bytearray, memoryview)):
        return Reply(status, typed("application/octet-stream"), bytes(body))
    if isinstance(body, str) and (response is not None or (content_type and "json" not in content_type)):
        return Reply(status, typed("text/plain; charset=utf-8"), body.encode())
    if body is None and (response is not None or status in (204, 304)):
        return Reply(status, headers)
    return Reply(status, typed("application/json"), codec.encode(body))


class Parts:
    """A large body cut up, so that it goes out as fast as its caller takes it."""

    __slots__ = ("_body", "_next")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._next = 0

    def __iter__(self) -> Parts:
        return self

    def __next__(self) -> bytes:
        part = self._body[self._next : self._next + STREAM_WINDOW_BYTES]
        if not part:
            raise StopIteration
        self._next += len(part)
        return part


def in_parts(reply: Reply) -> Reply:
    if len(reply.body) > LOAD_BALANCED_BODY_MAX_BYTES:
        detail = f"The function's response is larger than {LOAD_BALANCED_BODY_MAX_BYTES} bytes: stream it."
        return error_reply(502, "BAD_RESPONSE", "The function's response cannot be sent", detail)
    return Reply(reply.status, with_length(reply), b"", Parts(reply.body))


def with_length(reply: Reply) -> list:
    """Its headers, with the length that its body has, whatever the function said of it."""
    others = [each for each in reply.headers if each[0] != "content-length"]
    return [*others, ["content-length", str(len(reply.body))]]


def _pairs(headers):
    return headers.items() if hasattr(headers, "items") else (headers or ())


_LINES = "application/x-svc-lines"


def reply_to_peer(value) -> Reply:
    """The reply of a route to a Python peer. Raises NotJson."""
    from svc._values import tagged

    status = 200
    if value.__class__ is tuple and len(value) in (2, 3) and is_status(value[1]):
        value, status = value[0], value[1]
    if isinstance(value, Response):
        value, status = value.body, value.status
    if hasattr(value, "__aiter__") or hasattr(value, "__next__"):
        return Reply(status, [["content-type", _LINES], ["x-svc-tagged", "lines"]], b"", value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return Reply(status, [["content-type", "application/octet-stream"], ["x-svc-tagged", "bytes"]], bytes(value))
    return Reply(status, [["content-type", "application/json"], ["x-svc-tagged", "value"]], tagged.encode(value))
