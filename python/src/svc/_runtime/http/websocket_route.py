"""Runs a WebSocket route: the platform passes the bytes of the connection through, the protocol is spoken here.

    request ─▶ accept (101) ─▶ messages both ways ─▶ close by either side ─▶ end of the response
        └────▶ close before accept: 403
"""

from __future__ import annotations

import asyncio
import base64
import hashlib

from svc._runtime.http.frames import failed_reply, result_frame, stream_end, stream_part, stream_start
from svc._runtime.http.reply import Reply, error_reply
from svc._values import codec
from svc._runtime.http.websocket_frames import (
    BINARY,
    CLOSE,
    PING,
    TEXT,
    FrameReader,
    Violation,
    close_payload,
    encode_frame,
    may_close_with,
)
from svc.context import Cancelled
from svc.websocket import SocketClosed, WebSocket

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Socket(WebSocket):
    def __init__(self, work, worker) -> None:
        self._work = work
        self._worker = worker
        self._frames = FrameReader()
        self._closed: SocketClosed | None = None
        self._writing = asyncio.Lock()
        self.accepted = False
        self.refusal: Reply | None = None
        """The answer in place of a 403 when it is closed before it was accepted."""
        self.path = work.head["path"]
        self.headers = {name.lower(): value for name, value in work.head["headers"]}

    async def accept(self, subprotocol: str | None = None, headers=()) -> None:
        if self.accepted:
            raise RuntimeError("the connection is accepted already")
        if self._closed is not None:
            raise self._closed
        key = self.headers.get("sec-websocket-key", "").encode()
        accepts = base64.b64encode(hashlib.sha1(key + GUID).digest()).decode()
        headers = [["sec-websocket-accept", accepts], ["content-type", ""], *headers]
        if subprotocol is not None:
            headers.append(["sec-websocket-protocol", str(subprotocol)])
        frames = list(stream_start(self._work, Reply(101, headers), None))
        self.accepted = True
        for frame in frames:
            self._worker.write(frame)

    async def receive(self) -> str | bytes:
        if not self.accepted:
            await self.accept()
        while self._closed is None:
            try:
                frame = self._frames.next()
                if frame is None:
                    await self._read_more()
                elif frame[0] == TEXT:
                    return frame[1].decode()
                elif frame[0] == BINARY:
                    return frame[1]
                elif frame[0] == PING:
                    await self._write(encode_frame(10, frame[1]))
                elif frame[0] == CLOSE:
                    await self._closed_by_caller(frame[1])
            except UnicodeDecodeError:
                await self._leave(1007, "a text is not UTF-8")
            except Violation as violation:
                await self._leave(violation.code, violation.reason)
        raise self._closed

    async def _read_more(self) -> None:
        try:
            part = await self._work.upload.next_part()
        except Cancelled:
            part = b""
        if part:
            self._frames.push(part)
        else:
            self._closed = SocketClosed(1006)

    async def send(self, message) -> None:
        if not self.accepted:
            await self.accept()
        if self._closed is not None:
            raise self._closed
        if isinstance(message, str):
            await self._write(encode_frame(TEXT, message.encode()))
        elif isinstance(message, (bytes, bytearray, memoryview)):
            await self._write(encode_frame(BINARY, bytes(message)))
        else:
            await self._write(encode_frame(TEXT, codec.encode(message)))

    async def close(self, code: int = 1000, reason: str = "") -> None:
        if self._closed is None:
            if self.accepted and not may_close_with(code):
                raise ValueError(f"a WebSocket is closed with 1000 to 1003, 1007 to 1014 or 3000 to 4999, not {code!r}")
            await self._leave(code, reason)

    async def _leave(self, code: int, reason: str) -> None:
        # Before it is accepted it has no frames: the caller gets a 403.
        payload = close_payload(code, reason) if self.accepted else b""
        await self._end(payload, SocketClosed(code, reason))

    async def _closed_by_caller(self, payload: bytes) -> None:
        """The answer to a goodbye is the same goodbye, as other servers give it."""
        code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else 1005
        answer = payload if not payload or may_close_with(code) else close_payload(1002, "a code that nobody may send")
        await self._end(answer, SocketClosed(code, payload[2:].decode("utf-8", "replace")))

    async def _end(self, payload: bytes, seen: SocketClosed) -> None:
        """Says goodbye once; `seen` is what the function hears of it."""
        self._closed = seen
        if self.accepted:
            await self._write(encode_frame(CLOSE, payload))

    async def _write(self, data: bytes) -> None:
        async with self._writing:  # one at a time may wait for the window
            for frame in stream_part(self._work, data):
                self._worker.write(frame)
                if self._work.window <= 0:
                    await self._worker.window_opens(self._work)


async def serve(work, worker, call) -> None:
    """Runs `call(socket)` and ends the exchange, whatever happens."""
    refusal = refusal_of(work.head)
    if refusal is not None:
        worker.write(result_frame(work, refusal))
        return
    socket = Socket(work, worker)
    try:
        await call(socket)
        if socket.accepted:
            await socket.close()
    except SocketClosed:
        pass
    except BaseException as error:
        reply = failed_reply(Cancelled(work.cancel_reason) if work.cancel_reason else error, work)
        if not socket.accepted:
            worker.write(result_frame(work, reply))
            return
        await socket.close(1011, "the function failed")
    if socket.accepted:
        worker.write(stream_end(work))
    else:
        reply = error_reply(403, "FORBIDDEN", "Forbidden", "The function refused the connection.")
        worker.write(result_frame(work, socket.refusal or reply))


def refusal_of(head: dict) -> Reply | None:
    """The answer to a handshake that is none."""
    headers = {name.lower(): value for name, value in head["headers"]}
    if headers.get("sec-websocket-version") == "13" and headers.get("sec-websocket-key"):
        return None
    reply = error_reply(426, "BAD_INPUT", "Upgrade required", "The handshake is not that of WebSocket version 13.")
    reply.headers = [*reply.headers, ["sec-websocket-version", "13"]]
    return reply
