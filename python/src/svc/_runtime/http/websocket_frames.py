"""Frames of the WebSocket protocol (RFC 6455), server side."""

from __future__ import annotations

from struct import pack, unpack_from

from svc._runtime.limits import WEBSOCKET_MESSAGE_MAX_BYTES

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


class Violation(Exception):
    """The caller broke the protocol: the connection is closed with `code`."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def encode_frame(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        return pack(">BB", 0x80 | opcode, size) + payload
    if size < 65536:
        return pack(">BBH", 0x80 | opcode, 126, size) + payload
    return pack(">BBQ", 0x80 | opcode, 127, size) + payload


def may_close_with(code: int) -> bool:
    """Whether a side may send the code (RFC 6455, section 7.4): the others say what was seen, or are nobody's."""
    return isinstance(code, int) and (1000 <= code <= 1014 and code not in (1004, 1005, 1006) or 3000 <= code <= 4999)


def close_payload(code: int, reason: str) -> bytes:
    cut = reason.encode("utf-8", "replace")[:123]
    return pack(">H", code) + cut.decode("utf-8", "ignore").encode()


class FrameReader:
    """Cuts what arrives into frames and puts fragmented messages together."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._opcode = 0
        self._fragments: list[bytes] = []
        self._size = 0

    def push(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> tuple[int, bytes] | None:
        """The next whole message or control frame as (opcode, payload); None when more has to arrive. Raises Violation."""
        while (frame := self._cut()) is not None:
            final, opcode, payload = frame
            if opcode >= CLOSE:
                if not final or len(payload) > 125:
                    raise Violation(1002, "a control frame is too long or fragmented")
                return opcode, payload
            if (opcode == CONTINUATION) != bool(self._opcode):
                raise Violation(1002, "a fragment is out of order")
            self._opcode = self._opcode or opcode
            self._size += len(payload)
            if self._size > WEBSOCKET_MESSAGE_MAX_BYTES:
                raise Violation(1009, f"a message is larger than {WEBSOCKET_MESSAGE_MAX_BYTES} bytes")
            self._fragments.append(payload)
            if final:
                message = (self._opcode, b"".join(self._fragments))
                self._opcode, self._fragments, self._size = 0, [], 0
                return message
        return None

    def _cut(self) -> tuple[bool, int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        first, second = buffer[0], buffer[1]
        if first & 0x70 or first & 0x0F not in (0, 1, 2, 8, 9, 10):
            raise Violation(1002, "a frame has a reserved bit or an unknown type")
        if not second & 0x80:
            raise Violation(1002, "a frame is not masked")
        size, start = second & 0x7F, 2
        if size >= 126:
            start = 4 if size == 126 else 10
            if len(buffer) < start:
                return None
            size = unpack_from(">H" if start == 4 else ">Q", buffer, 2)[0]
        if size > WEBSOCKET_MESSAGE_MAX_BYTES:
            raise Violation(1009, f"a message is larger than {WEBSOCKET_MESSAGE_MAX_BYTES} bytes")
        end = start + 4 + size
        if len(buffer) < end:
            return None
        payload = _unmask(bytes(buffer[start + 4 : end]), bytes(buffer[start : start + 4]))
        del buffer[:end]
        return bool(first & 0x80), first & 0x0F, payload


def _unmask(payload: bytes, mask: bytes) -> bytes:
    size = len(payload)
    if not size:
        return b""
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")
