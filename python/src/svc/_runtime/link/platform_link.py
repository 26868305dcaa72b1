"""The launcher's link to the platform: never blocks, dials again with back-off, keeps what must not get lost."""

from __future__ import annotations

import os
import select
import socket
from time import monotonic

from svc._runtime.link import protocol
from svc._runtime.link.connection import TLS, credentials_of, dial
from svc._runtime.limits import (
    GREETING_TIMEOUT_S,
    LAUNCHER_BACKLOG_MAX_BYTES,
    LAUNCHER_OUTPUT_MAX_BYTES,
    READ_BYTES,
    RECONNECT_FIRST_S,
    RECONNECT_STEP_MAX_S,
)
from svc._runtime.link.protocol import FrameError, FrameReader, encode, parse_head


class PlatformLink:
    """`tick` is called by the loop when `next_try` has come; `readable` and `writable` when poll says so."""

    def __init__(self, address: str, token: str, launcher: str, reconnect_s: float, workers) -> None:
        self._address = address
        self._token = token
        self._launcher = launcher
        self._reconnect_s = reconnect_s
        self._workers = workers
        self._sock: socket.socket | None = None
        self._reader = FrameReader()
        self._out = bytearray()
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self._kept_output_bytes = 0
        self._welcome = False
        self._pause = 0.0
        self._lost_at = monotonic()
        self.next_try = 0.0
        self.welcomed = lambda: None
        """Called when the platform is there, again or for the first time, and has what was kept."""
        self.over = ""
        """Why there is no point in going on: refused, or not reachable for too long."""

    @property
    def descriptor(self) -> int:
        return -1 if self._sock is None else self._sock.fileno()

    def platform(self, from_namespace: bool) -> list[int] | None:
        """Process and user at the other end, for workers to know it by; None when it is on another machine."""
        if self._sock is None or self._address.startswith(TLS):
            return None
        pid, uid = credentials_of(self._sock)
        return [0 if from_namespace else pid, uid]

    @property
    def events(self) -> int:
        return select.POLLIN | (select.POLLOUT if self._out or getattr(self._sock, "unsent", b"") else 0)

    def tick(self) -> None:
        """Dials when it is time to."""
        now = monotonic()
        if self._sock is not None:
            if not self._welcome and now >= self.next_try:
                self._lose()
            return
        if now < self.next_try:
            return
        if now - self._lost_at > self._reconnect_s:
            self.over = "the platform did not come back"
            return
        try:
            self._sock = dial(self._address)
        except OSError:
            self._plan_next_try()
            return
        self._sock.setblocking(False)
        self._reader = FrameReader()
        self._out.clear()
        self.next_try = now + GREETING_TIMEOUT_S
        hello = {
            "protocol": protocol.PROTOCOL,
            "role": "launcher",
            "token": self._token,
            "worker": self._launcher,
            "pid": os.getpid(),
            "unacknowledged": [],
        }
        self._write(encode(protocol.HELLO, 0, hello))

    def _plan_next_try(self) -> None:
        self._pause = min(self._pause * 2, RECONNECT_STEP_MAX_S) if self._pause else RECONNECT_FIRST_S
        self.next_try = monotonic() + self._pause

    def readable(self) -> list:
        """Frames that came; the handshake's are handled here."""
        try:
            data = self._sock.recv(READ_BYTES)
            frames = self._reader.push(data) if data else None
        except BlockingIOError:
            return []
        except (OSError, FrameError):
            frames = None
        if frames is None:
            self._lose()
            return []
        return [frame for frame in frames if not self._is_handshake(frame)]

    def _is_handshake(self, frame: tuple) -> bool:
        if frame[0] == protocol.REFUSED:
            self.over = f"refused: {parse_head(frame[3]).get('reason', '')}"
            return True
        if frame[0] == protocol.PING:
            self._write(encode(protocol.PONG))
            return True
        if frame[0] != protocol.WELCOME:
            return False
        self._welcome = True
        self._pause = 0.0
        # Ends and their reasons come first: the platform counts out whoever is not among the workers.
        if self._write(b"".join(self._kept)):
            self._kept, self._kept_bytes, self._kept_output_bytes = [], 0, 0
        self._write(encode(protocol.WORKERS, 0, self._workers()))
        self.welcomed()
        return True

    def _lose(self) -> None:
        if self._welcome:
            self._lost_at = monotonic()
        self._welcome = False
        self._sock.close()
        self._sock = None
        self._out.clear()
        if self._pause:
            self._plan_next_try()
        else:
            self._pause = RECONNECT_FIRST_S / 2
            self.next_try = 0.0

    def send(self, frame: bytes) -> None:
        """A frame that must arrive: kept while the link is down, also where that is only seen now."""
        if self._welcome and self._write(frame):
            return
        if self._kept_bytes + len(frame) <= LAUNCHER_BACKLOG_MAX_BYTES:
            self._kept.append(frame)
            self._kept_bytes += len(frame)

    def send_output(self, frame: bytes) -> bool:
        """What workers print: some is kept while the link is down, also where that is only seen now. False when it is dropped, then or
        because the platform is slow."""
        if self._welcome:
            if len(self._out) >= LAUNCHER_BACKLOG_MAX_BYTES:
                return False
            if self._write(frame):
                return True
        if self._kept_output_bytes + len(frame) > LAUNCHER_OUTPUT_MAX_BYTES:
            return False
        self._kept.append(frame)
        self._kept_output_bytes += len(frame)
        return True

    def _write(self, data: bytes) -> bool:
        """False when nothing of it can leave: the link is broken, which the loop sees next."""
        if self._out or not data:
            self._out += data
            return True
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return False
        if sent < len(data):
            self._out += data[sent:]
        return True

    def writable(self) -> None:
        try:
            del self._out[: self._sock.send(self._out)]
        except BlockingIOError:
            pass
        except OSError:
            self._out.clear()

    def flush(self, seconds: float) -> None:
        """Before the end: what is written should leave."""
        if self._sock is not None:
            try:
                self._sock.settimeout(seconds)
                self._sock.sendall(self._out)
            except OSError:
                pass
