"""What an endpoint's own server answers, read strictly: user code can say anything, and none of it may pass for something else."""

from __future__ import annotations

import asyncio
import re

from svc._runtime.limits import BODY_FRAME_BYTES, SERVER_CHUNK_LINE_MAX_BYTES, SERVER_HEADERS_MAX, SERVER_INTERIM_MAX

HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
     "transfer-encoding", "upgrade")
)  # fmt: skip
"""Belong to one connection and not to the message (RFC 9110, 7.6.1)."""

_TEXT = rb"[^\x00-\x08\x0a-\x1f\x7f]*"
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?: " + _TEXT + rb")?")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):(" + _TEXT + rb")")
_LENGTH = re.compile(r"[0-9]{1,18}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;" + _TEXT + rb")?")


class BadAnswer(Exception):
    """What the server sent is no HTTP answer; the message says what is wrong with it."""


class Head:
    """Status and headers of an answer, without those of the connection. Names are in lower case."""

    __slots__ = ("chunked", "headers", "length", "status")

    def __init__(self, status: int, headers: list, length: int | None, chunked: bool) -> None:
        self.status = status
        self.headers = headers
        self.length = length
        """Bytes of the body; None: its chunks, or the end of the connection, end it."""
        self.chunked = chunked


async def read_head(reader: asyncio.StreamReader, method: str, upgrades: bool = False) -> Head:
    """The final answer's; those before it (100, 103) are passed over. Raises BadAnswer, and EOFError when none came."""
    for _ in range(SERVER_INTERIM_MAX):
        try:
            text = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise BadAnswer("its headers do not end") from None
        head = _parse(text[:-4].split(b"\r\n"), method)
        if head.status == 101 and not upgrades:
            raise BadAnswer("it switches protocols, which nobody asked for")
        if head.status >= 200 or head.status == 101:
            return head
    raise BadAnswer(f"more than {SERVER_INTERIM_MAX} interim answers")


def _parse(lines: list[bytes], method: str) -> Head:
    found = _STATUS.fullmatch(lines[0])
    if found is None:
        raise BadAnswer(f"it begins with {_shown(lines[0])}, which is no status line of HTTP/1.1")
    status = int(found[1])
    if len(lines) > SERVER_HEADERS_MAX:
        raise BadAnswer(f"more than {SERVER_HEADERS_MAX} headers")
    headers, own = [], set()
    framing: dict[str, list[str]] = {"content-length": [], "transfer-encoding": []}
    for line in lines[1:]:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise BadAnswer(f"{_shown(line)} is no header")
        name, value = field[1].decode("ascii").lower(), field[2].decode("latin-1").strip(" \t")
        if name in framing:
            framing[name].append(value)
        if name == "connection":
            own.update(one.strip().lower() for one in value.split(","))
        if name not in HOP_BY_HOP:
            headers.append([name, value])
    own.discard("content-length")
    length, chunked = _length(framing["content-length"], framing["transfer-encoding"])
    if method == "HEAD" or status in (204, 304) or status < 200:
        length, chunked = 0, False
    return Head(status, [each for each in headers if each[0] not in own], length, chunked)


def _length(lengths: list[str], encodings: list[str]) -> tuple[int | None, bool]:
    if encodings:
        if lengths:
            raise BadAnswer("it has both Content-Length and Transfer-Encoding")
        if [each.lower() for each in encodings] != ["chunked"]:
            raise BadAnswer(f"its Transfer-Encoding is {_shown(', '.join(encodings).encode())}, not chunked")
        return None, True
    if not lengths:
        return None, False
    if len(lengths) > 1 or _LENGTH.fullmatch(lengths[0]) is None:
        raise BadAnswer(f"its Content-Length is {_shown(', '.join(lengths).encode())}")
    return int(lengths[0]), False


async def body_parts(reader: asyncio.StreamReader, head: Head):
    """Yields the body as it comes. Raises BadAnswer, and EOFError when it breaks off."""
    if head.chunked:
        while size := await _chunk_size(reader):
            async for part in _exactly(reader, size):
                yield part
            if await reader.readexactly(2) != b"\r\n":
                raise BadAnswer("a chunk is longer than it says")
        await _pass_trailers(reader)
    elif head.length is not None:
        async for part in _exactly(reader, head.length):
            yield part
    else:
        while part := await reader.read(BODY_FRAME_BYTES):
            yield part


async def _exactly(reader: asyncio.StreamReader, size: int):
    while size > 0:
        part = await reader.read(min(size, BODY_FRAME_BYTES))
        if not part:
            raise EOFError(f"{size} bytes of its body are missing")
        size -= len(part)
        yield part


async def _chunk_size(reader: asyncio.StreamReader) -> int:
    line = await _line(reader)
    found = _CHUNK.fullmatch(line)
    if found is None:
        raise BadAnswer(f"{_shown(line)} is no length of a chunk")
    return int(found[1], 16)


async def _pass_trailers(reader: asyncio.StreamReader) -> None:
    for _ in range(SERVER_HEADERS_MAX):
        if not await _line(reader):
            return
    raise BadAnswer(f"more than {SERVER_HEADERS_MAX} trailers")


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        line = await reader.readuntil(b"\r\n")
    except asyncio.LimitOverrunError:
        line = b""
    if not line or len(line) > SERVER_CHUNK_LINE_MAX_BYTES:
        raise BadAnswer("a line between its chunks does not end")
    return line[:-2]


def _shown(data: bytes) -> str:
    return repr(data[:80].decode("latin-1"))
