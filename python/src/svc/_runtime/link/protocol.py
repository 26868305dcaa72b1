"""Frames between the platform and its workers and launcher: docs/reference/protocol.md.

u32 length | u8 type | u8 flags | u16 head length | u32 channel | head (JSON) | body (bytes), big-endian.
"""

from __future__ import annotations

import json
from io import BytesIO
from struct import Struct

from svc._runtime.limits import FRAME_HEAD_MAX_BYTES, FRAME_MAX_BYTES

PROTOCOL = 1
MORE = 1

HELLO, WELCOME, REFUSED, CREDIT, BOOT_FAILED, JOB, REQUEST, BODY, CANCEL = 1, 2, 3, 4, 5, 6, 7, 8, 9
PROGRESS, CHUNK, RESULT, ACK, LOG, PING, PONG, DRAIN, GOODBYE = 10, 11, 12, 13, 14, 15, 16, 17, 18
WINDOW = 19
START, STOP, STARTED, EXITED, RETIRE, SHUTDOWN, WORKERS, HOLD = 32, 33, 34, 35, 36, 37, 38, 39

_PREFIX = Struct(">IBBHI")
_pack = _PREFIX.pack
_unpack = _PREFIX.unpack_from
_read_json = json.JSONDecoder().raw_decode


class FrameError(Exception):
    """The byte stream is not frames: the link must be closed."""


def encode(type: int, channel: int = 0, head: dict | bytes | None = None, body: bytes = b"", flags: int = 0) -> bytes:
    """The bytes of one frame. `head` may be JSON bytes already; None is the empty head."""
    if head is None:
        head = b""
    elif head.__class__ is not bytes:
        head = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
    if len(head) > FRAME_HEAD_MAX_BYTES:
        raise FrameError(f"frame head of {len(head)} bytes is too long")
    return _pack(8 + len(head) + len(body), type, flags, len(head), channel) + head + body


def parse_head(head: bytes) -> dict:
    """The head as a dict; the empty head is {}. Raises FrameError when it is not a JSON object, with nothing around it."""
    if not head:
        return {}
    try:
        text = head.decode()
        value, end = _read_json(text)
    except (ValueError, RecursionError):
        raise FrameError("frame head is not JSON") from None
    if value.__class__ is not dict or end != len(text):
        raise FrameError("frame head is not an object")
    return value


class FrameReader:
    """Cuts a byte stream into frames. A frame that comes in parts is put together where it will lie."""

    __slots__ = ("_coming", "_start")

    def __init__(self) -> None:
        self._start = b""
        """Of a frame whose prefix and head have not all come."""
        self._coming: _Coming | None = None

    def push(self, data: bytes) -> list[tuple[int, int, int, bytes, bytes]]:
        """The frames that `data` completes, in order, as (type, flags, channel, head, body)."""
        frames = []
        start = 0
        if self._coming is not None:
            start = self._coming.add(data)
            if self._coming.missing:
                return frames
            frames.append(self._coming.frame())
            self._coming = None
        elif self._start:
            data = self._start + data
            self._start = b""
        total = len(data)
        while total - start >= 12:
            length, type, flags, head_length, channel = _unpack(data, start)
            if length < 8 + head_length or length > FRAME_MAX_BYTES:
                raise FrameError(f"frame length {length} is out of bounds")
            end = start + 4 + length
            body_start = start + 12 + head_length
            if end > total:
                if body_start <= total:
                    self._coming = _Coming(type, flags, channel, data[start + 12 : body_start], end - body_start)
                    self._coming.add(data[body_start:])
                    return frames
                break
            frames.append((type, flags, channel, data[start + 12 : body_start], data[body_start:end]))
            start = end
        if start < total:
            self._start = data[start:]
        return frames


class _Coming:
    """A frame of which the body has not all come: a large one is copied once."""

    __slots__ = ("_body", "_frame", "missing")

    def __init__(self, type: int, flags: int, channel: int, head: bytes, body_bytes: int) -> None:
        self._frame = (type, flags, channel, head)
        # It writes into these bytes, which nobody else has, and gives them back.
        self._body = BytesIO(bytes(body_bytes))
        self.missing = body_bytes

    def add(self, data: bytes) -> int:
        """Takes what belongs to it; gives the number of bytes."""
        taken = self._body.write(data if len(data) <= self.missing else data[: self.missing])
        self.missing -= taken
        return taken

    def frame(self) -> tuple[int, int, int, bytes, bytes]:
        return (*self._frame, self._body.getvalue())


def boot_failed(head: dict) -> bytes:
    """The BOOT_FAILED frame; a traceback too long for a head loses its beginning."""
    if len(head.get("error_traceback", "")) > 8000:
        head["error_traceback"] = "…" + head["error_traceback"][-8000:]
    head["error_message"] = head.get("error_message", "")[:4000]
    return encode(BOOT_FAILED, 0, head)
