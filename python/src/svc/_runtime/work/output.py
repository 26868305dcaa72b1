"""User output: line by line, bounded in length and rate, so that a flood harms nobody."""

from __future__ import annotations

import io
import os
from _thread import get_ident
from time import monotonic

from svc._runtime.limits import (
    LOG_BURST_BYTES,
    LOG_FRAME_MAX_BYTES,
    LOG_LINE_MAX_BYTES,
    LOG_RATE_BYTES_PER_S,
    PIPE_READ_BYTES,
)

_CUT = b" [line cut]"


class RateLimit:
    """A bucket of bytes. What does not fit is counted, and told in one line when there is room again."""

    __slots__ = ("_at", "_left", "_level")

    def __init__(self) -> None:
        self._level = float(LOG_BURST_BYTES)
        self._at = monotonic()
        self._left = 0

    def admit(self, lines: bytes) -> bytes:
        """The lines to send: all, or nothing when they are over the rate."""
        now = monotonic()
        self._level = min(LOG_BURST_BYTES, self._level + (now - self._at) * LOG_RATE_BYTES_PER_S)
        self._at = now
        if len(lines) > self._level:
            self._left += lines.count(b"\n")
            return b""
        self._level -= len(lines)
        if self._left == 0:
            return lines
        note = b"[svc] %d lines left out: over %d KiB of output per second\n" % (
            self._left,
            LOG_RATE_BYTES_PER_S // 1024,
        )
        self._left = 0
        return note + lines


class LineBuffer:
    """Cuts a byte stream into whole lines; a line that is too long is cut short, its rest is dropped."""

    __slots__ = ("_partial", "_skipping")

    def __init__(self) -> None:
        self._partial = b""
        self._skipping = False

    def push(self, data: bytes) -> bytes:
        """The whole lines completed by `data`."""
        if self._skipping:
            end = data.find(b"\n")
            if end < 0:
                return b""
            data = data[end + 1 :]
            self._skipping = False
        data = self._partial + data
        end = data.rfind(b"\n") + 1
        lines, self._partial = data[:end], data[end:]
        if len(self._partial) > LOG_LINE_MAX_BYTES:
            lines += self._partial[:LOG_LINE_MAX_BYTES] + _CUT + b"\n"
            self._partial = b""
            self._skipping = True
        if len(lines) > LOG_LINE_MAX_BYTES:
            lines = b"".join(_short(line) for line in lines.splitlines(keepends=True))
        return lines

    @property
    def is_open(self) -> bool:
        """It is in the midst of a line."""
        return bool(self._partial) or self._skipping

    def rest(self) -> bytes:
        """What stands without a line end, as a line."""
        rest, self._partial = self._partial, b""
        return rest + b"\n" if rest else b""


def _short(line: bytes) -> bytes:
    return line if len(line) <= LOG_LINE_MAX_BYTES + len(_CUT) + 1 else line[:LOG_LINE_MAX_BYTES] + _CUT + b"\n"


def frames_of(lines: bytes):
    """Whole lines, in parts as large as the platform takes them in one frame."""
    while len(lines) > LOG_FRAME_MAX_BYTES:
        end = lines.rfind(b"\n", 0, LOG_FRAME_MAX_BYTES) + 1
        yield lines[:end]
        lines = lines[end:]
    yield lines


def write_all(descriptor: int, data: bytes) -> None:
    """Past all buffers; what nobody reads any more is lost."""
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        pass


class OutputPipe:
    """The reading end of a worker's stdout or stderr."""

    __slots__ = ("_lines", "_rate", "descriptor", "dropped", "is_empty", "stream", "worker")

    def __init__(self, descriptor: int, stream: str, worker: str, rate: RateLimit) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.stream = stream
        self.worker = worker
        self.is_empty = False
        """Nothing was there at the last read."""
        self.dropped = 0
        """Lines that the link did not take, since the last that it took."""
        self._lines = LineBuffer()
        self._rate = rate

    def read(self) -> bytes | None:
        """Whole lines to pass on, maybe none; None at the end of the stream."""
        try:
            data = os.read(self.descriptor, PIPE_READ_BYTES)
            self.is_empty = False
        except BlockingIOError:
            self.is_empty = True
            return b""
        except OSError:
            return None
        if not data:
            return None
        return self._rate.admit(self._lines.push(data))

    def rest(self) -> bytes:
        return self._rate.admit(self._lines.rest())


class JobStream(io.TextIOBase):
    """sys.stdout and sys.stderr of a worker: whole lines go to the platform on the channel of the running job.

    `emit(stream, channel, lines)` sends; `channel_now()` names the running job, 0 outside one.
    """

    def __init__(self, name: str, descriptor: int, emit, channel_now, rate: RateLimit) -> None:
        self._name = name
        self._descriptor = descriptor
        self._emit = emit
        self._channel_now = channel_now
        self._rate = rate
        self._buffers: dict[tuple[int, int], LineBuffer] = {}
        """Begun lines, by channel and thread: those of threads that print at once stay whole, and nothing has to be locked,
        which a signal's handler or a fork could run into."""
        self.buffer = _Bytes(self)

    encoding = "utf-8"
    errors = "backslashreplace"

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self.write_bytes(text.encode("utf-8", "backslashreplace"))
        return len(text)

    def write_bytes(self, data: bytes) -> None:
        channel = self._channel_now()
        key = (channel, get_ident())
        buffer = self._buffers.get(key)
        if buffer is None:
            buffer = self._buffers[key] = LineBuffer()
        lines = buffer.push(data)
        if not buffer.is_open:
            self._buffers.pop(key, None)
        if lines:
            self._send(channel, lines)

    def _send(self, channel: int, lines: bytes) -> None:
        lines = self._rate.admit(lines)
        if lines:
            self._emit(self._name, channel, lines)

    def write_lines(self, channel: int, lines: bytes) -> None:
        """Whole lines at once."""
        self._send(channel, LineBuffer().push(lines))

    def end_channel(self, channel: int) -> None:
        """The job is over: its unfinished lines go out."""
        for key in [key for key in list(self._buffers) if key[0] == channel]:
            buffer = self._buffers.pop(key, None)
            rest = b"" if buffer is None else buffer.rest()
            if rest:
                self._send(channel, rest)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return False

    def close(self) -> None:
        """Stays open: it belongs to the worker, not to the function."""


class _Bytes(io.RawIOBase):
    def __init__(self, stream: JobStream) -> None:
        self._stream = stream

    def write(self, data) -> int:
        data = bytes(data)
        self._stream.write_bytes(data)
        return len(data)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def close(self) -> None:
        pass
