"""A worker's connection to the platform, which outlives breaks of the link.

A job's result is kept until its ACK. When the link breaks the worker goes on with what it runs; whoever reads the
socket calls `recover`, which dials with back-off, lists the jobs that run or wait for their ACK, and sends the
results that wait again. Any thread may send; one at a time reads.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from time import monotonic, sleep

try:
    import fcntl
except ImportError:
    fcntl = None

from svc._runtime.link import protocol
from svc._runtime.limits import (
    BACKLOG_MAX_BYTES,
    GREETING_TIMEOUT_S,
    HELD_IN_HEAD_MAX,
    READ_BYTES,
    RECONNECT_FIRST_S,
    RECONNECT_STEP_MAX_S,
    SOCKET_FD_MIN,
)
from svc._runtime.link.protocol import FrameError, FrameReader, encode, parse_head


TLS = "tls://"
_CREDENTIALS = struct.Struct("3i")


class Refused(Exception):
    """The platform does not want this worker: it must not try again."""


class Unreachable(Exception):
    """The platform did not come back in time."""


def dial(address: str, timeout_s: float = GREETING_TIMEOUT_S, turn: int = 0) -> socket.socket:
    """
    Connects to a Unix socket's path or `tls://host:port#fingerprint` (docs/reference/protocol.md). Raises OSError. Of several
    `host:port`, with commas between, it is another one each `turn`.
    """
    if address.startswith(TLS):
        from svc._runtime.link.tls import dial_tls

        reached_at, _, pin = address[len(TLS) :].partition("#")
        places = reached_at.split(",")
        host, _, port = places[turn % len(places)].rpartition(":")
        return dial_tls(host.strip("[]"), int(port), pin, timeout_s, _moved_up)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return _moved_up(sock)


def credentials_of(sock: socket.socket) -> tuple[int, int]:
    """Process and user at the other end of a Unix socket, as they are called here; a process outside our namespace is 0."""
    pid, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, uid


def _moved_up(sock: socket.socket) -> socket.socket:
    """Away from the low numbers, where careless code closes and reuses descriptors."""
    if fcntl is None:
        return sock
    try:
        high = fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, SOCKET_FD_MIN)
    except OSError:
        return sock
    moved = socket.socket(sock.family, sock.type, sock.proto, fileno=high)
    sock.close()
    return moved


class Unacknowledged:
    """A job that runs or whose result waits for its ACK."""

    __slots__ = ("fence", "job", "result", "since")

    def __init__(self, job: str, fence: int) -> None:
        self.job = job
        self.fence = fence
        self.result: bytes | None = None
        self.since = monotonic()


class Connection:
    def __init__(
        self, address: str, token: str, worker: str, reconnect_ms: int, platform: list[int] | None = None, ahead=None
    ) -> None:
        """`ahead` is a LinkAhead, if one was opened."""
        self._address = address
        self._token = token
        self._worker = worker
        self._reconnect_s = reconnect_ms / 1000
        self._platform = platform
        """Who may get the token: process and user, as the launcher knows them."""
        self._sock: socket.socket | None = None
        self._reader = FrameReader()
        self._lock = threading.Lock()
        self._up = False
        self._backlog: list[bytes] = []
        self._backlog_bytes = 0
        self._credit = b""
        self._disowned = False
        self._meanwhile = None
        self._ahead = ahead
        self.pulls = False
        """The worker's jobs come over HTTP: none is expected here."""
        self.descriptor_closed = lambda: None
        """Called where user code has closed the socket: a reader that waits for it is not woken by that."""
        self.on_welcome = None
        """Called with the head of each WELCOME."""
        self.unacknowledged: dict[int, Unacknowledged] = {}
        self.early_frames: list = []
        """Frames that came together with WELCOME: the reader takes them first."""

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def up(self) -> bool:
        return self._up

    @property
    def was_welcome(self) -> bool:
        return self._sock is not None

    @property
    def is_engaged(self) -> bool:
        """In the midst of a send, or of what TLS does with bytes: the handler of a signal that sends now may wait for the very
        thread that it interrupted."""
        return self._lock.locked() or getattr(self._sock, "is_engaged", False)

    def open(self, credit: bytes, meanwhile=None) -> None:
        """Connects for the first time; `credit` is the CREDIT frame sent now and after each reconnect.

        `meanwhile()` is called once, while the first answer is on its way.
        """
        self._credit = credit
        self._meanwhile = meanwhile
        try:
            self._greet()
        except (OSError, FrameError, ConnectionError):
            self.recover()

    def read(self, flags: int = 0) -> list | None:
        """Frames, in order; None when the link broke. Blocks unless `flags` says MSG_DONTWAIT."""
        try:
            data = self._sock.recv(READ_BYTES, flags)
            if data:
                return self._reader.push(data)
        except BlockingIOError:
            return []
        except (OSError, FrameError):
            pass
        self._up = False
        return None

    def send(self, data: bytes, kept: list[bytes] | tuple = ()) -> bool:
        """Sends frames. False when the link is down: of them only `kept` is kept then, for the next connection (up to a bound)."""
        with self._lock:
            if self._send_locked(data):
                return True
            for frame in kept:
                if self._backlog_bytes + len(frame) <= BACKLOG_MAX_BYTES:
                    self._backlog.append(frame)
                    self._backlog_bytes += len(frame)
            return False

    def _send_locked(self, data: bytes) -> bool:
        if not self._up:
            return False
        try:
            self._sock.sendall(data)
            return True
        except OSError:
            self._up = False
            try:
                self._sock.shutdown(socket.SHUT_RDWR)  # wakes the reader
            except OSError:
                self.descriptor_closed()
            return False

    def recover(self, keep_trying=lambda: True) -> bool:
        """Dials until the platform is back: at once, then with growing pauses. Raises Refused and Unreachable."""
        if self._disowned:
            os._exit(0)
        deadline = monotonic() + self._reconnect_s
        pause, turn = 0.0, 0
        while keep_trying():
            if pause:
                sleep(min(pause, max(0.0, deadline - monotonic())))
            try:
                self._greet(turn)
                return True
            except (OSError, FrameError) as error:
                why = error
            turn += 1
            if monotonic() >= deadline:
                raise Unreachable(f"the platform did not come back within {self._reconnect_s:g} s: {why}")
            pause = min(pause * 2, RECONNECT_STEP_MAX_S) if pause else RECONNECT_FIRST_S
        return False

    def _greet(self, turn: int = 0) -> None:
        ahead, self._ahead = self._ahead, None
        sock = (ahead and ahead.take(self._address)) or dial(self._address, turn=turn)
        sock.settimeout(GREETING_TIMEOUT_S)
        reader = FrameReader()
        try:
            self._check_platform(sock)
            with self._lock:
                now = monotonic()
                listed = [
                    {"channel": channel, "job": kept.job, "fence": kept.fence, "heldMs": int((now - kept.since) * 1000)}
                    for channel, kept in self.unacknowledged.items()
                ]
                offered = set(self.unacknowledged)
            hello = {
                "protocol": protocol.PROTOCOL,
                "role": "worker",
                "token": self._token,
                "worker": self._worker,
                "pid": os.getpid(),
                "unacknowledged": listed if len(listed) <= HELD_IN_HEAD_MAX else [],
                **({"pulls": True} if self.pulls else {}),
            }
            body = b"" if len(listed) <= HELD_IN_HEAD_MAX else json.dumps(listed, separators=(",", ":")).encode()
            # The first time CREDIT goes along: nothing else waits that would have to keep its order behind WELCOME.
            is_first = self._sock is None and not listed
            sock.sendall(encode(protocol.HELLO, 0, hello, body) + (self._credit if is_first else b""))
            if self._meanwhile is not None:
                meanwhile, self._meanwhile = self._meanwhile, None
                meanwhile()
            frames = _until_answer(sock, reader)
        except BaseException:
            sock.close()
            raise
        type, _, _, head, _ = frames[0]
        if type == protocol.REFUSED:
            sock.close()
            raise Refused(parse_head(head).get("reason", "refused"))
        if self.on_welcome is not None:
            self.on_welcome(parse_head(head))
        sock.settimeout(None)
        with self._lock:
            # Whoever watches the socket meanwhile finds one that is open.
            before, self._sock = self._sock, sock
            if before is not None and before.fileno() == sock.fileno():
                before.detach()  # User code had closed it, and the new one has its number.
            elif before is not None:
                before.close()
            self._reader = reader
            self.early_frames.extend(frames[1:])
            self._up = True
            waiting = [] if is_first else [self._credit]
            waiting += self._backlog
            self._backlog = []
            self._backlog_bytes = 0
            waiting += [
                kept.result
                for channel, kept in self.unacknowledged.items()
                if kept.result is not None and channel in offered
            ]
            if waiting:
                self._send_locked(b"".join(waiting))

    def _check_platform(self, sock: socket.socket) -> None:
        """The token is for the platform alone. Raises ConnectionError. A platform that was started again is another process,
        which is known only to be outside the worker's namespace, where there is one."""
        if self._platform is None or self._address.startswith(TLS):
            return
        (pid, uid), (known_pid, known_uid) = credentials_of(sock), self._platform
        if uid != known_uid or (pid != known_pid and (known_pid == 0 or self._sock is None)):
            raise ConnectionError(f"process {pid} of user {uid} stands in the platform's place")

    def disown(self) -> None:
        """In a process that user code forked: it is not the worker and must never speak for it."""
        self._disowned = True
        self._lock = threading.Lock()
        self.close()

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
        self._up = False


def _until_answer(sock: socket.socket, reader: FrameReader) -> list:
    while True:
        data = sock.recv(READ_BYTES)
        if not data:
            raise ConnectionError("closed before WELCOME")
        frames = reader.push(data)
        while frames and frames[0][0] not in (protocol.WELCOME, protocol.REFUSED):
            frames.pop(0)
        if frames:
            return frames
