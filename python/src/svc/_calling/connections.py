"""HTTP by the standard library: one exchange over a kept connection, and what interrupts the wait for its answer."""

from __future__ import annotations

import http.client
import io
import os
import select
import socket
import threading
from time import monotonic
from urllib.parse import urlsplit

from svc._calling.limits import CONNECT_MAX_S, IDLE_CONNECTIONS_MAX, IDLE_MAX_S, LOOK_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Mapping


class Abandoned(Exception):
    """The waiting side gave the call up."""


class NotSent(OSError):
    """There was no connection, so the other side has seen nothing of the request."""


class Patience:
    """How long a call may wait, and whether it still wants to."""

    __slots__ = ("_given_up", "_socket", "deadline")

    def __init__(self, deadline: float | None = None) -> None:
        self.deadline = deadline
        """monotonic() at which it ends; None: no end."""
        self._given_up = threading.Event()
        self._socket: _PatientSocket | None = None
        """What is waited at."""

    def left(self) -> float | None:
        """Seconds; None without an end."""
        return None if self.deadline is None else max(0.0, self.deadline - monotonic())

    @property
    def is_over(self) -> bool:
        return self.deadline is not None and monotonic() >= self.deadline

    def give_up(self) -> None:
        """From another thread: what waits now ends with Abandoned."""
        self._given_up.set()
        sock = self._socket
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def check(self) -> None:
        if self._given_up.is_set():
            raise Abandoned

    def pause(self, seconds: float) -> None:
        """Raises Abandoned when it is given up meanwhile."""
        left = self.left()
        if self._given_up.wait(seconds if left is None else min(seconds, left)):
            raise Abandoned


class Answer:
    """A response; `body` is read, unless it is a stream."""

    __slots__ = ("body", "headers", "status", "stream")

    def __init__(self, status: int, headers: dict[str, str], body: bytes, stream: Stream | None = None) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.stream = stream


class _PatientSocket:
    """A connected socket, as http.client uses one, that waits in steps: a thread that waits in one long system call hears of
    a cancel only afterwards, and with it the worker that has to end it."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._step_s = 0.0
        self._timeout_s = 0.0
        self._patience = Patience()
        self.fileno = sock.fileno
        self.shutdown = sock.shutdown
        self.close = sock.close

    def serve(self, timeout_s: float, patience: Patience) -> None:
        """From now on each wait is at most so long, and for this call."""
        self._timeout_s = timeout_s
        self._patience = patience

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Received(self))

    def holder(self) -> socket.SocketIO:
        """Until it is closed `close` closes nothing: http.client closes a connection before it reads the answer's body."""
        return self._socket.makefile("rb", buffering=0)

    def recv_into(self, buffer: memoryview) -> int:
        return self._patiently(lambda: self._socket.recv_into(buffer))

    def sendall(self, data: bytes) -> None:
        left = memoryview(data).cast("B")
        while left:
            left = left[self._patiently(lambda: self._socket.send(left)) :]

    def _patiently(self, step: Callable[[], int]) -> int:
        until = monotonic() + self._timeout_s
        step_s = min(LOOK_S, self._timeout_s)
        while True:
            if step_s != self._step_s:
                self._step_s = max(0.001, step_s)
                self._socket.settimeout(self._step_s)
            try:
                return step()
            except TimeoutError:
                self._patience.check()
                step_s = min(LOOK_S, until - monotonic())
                if step_s <= 0:
                    raise TimeoutError(f"no answer within {self._timeout_s:.0f} s") from None


class _Received(io.RawIOBase):
    """What comes in, for `makefile`."""

    def __init__(self, sock: _PatientSocket) -> None:
        self._socket = sock
        self._held = sock.holder()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._socket.recv_into(buffer)

    def close(self) -> None:
        super().close()
        self._held.close()


class Stream:
    """The lines of a streamed response. Raises OSError or HTTPException when it breaks off."""

    def __init__(
        self,
        connection: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
        sock: _PatientSocket,
        timeout_s: float,
        patience: Patience,
    ) -> None:
        self._connection = connection
        self._response = response
        self._socket = sock
        self._timeout_s = timeout_s
        self._patience = patience

    def line(self) -> bytes:
        """The next line with its end; b"" after the last, and also where the connection broke off."""
        self._patience.check()
        try:
            left = self._patience.left()
            if left is not None:
                self._socket.serve(min(left, self._timeout_s), self._patience)
            return self._response.readline()
        except (OSError, http.client.HTTPException):
            self._patience.check()
            raise

    def rest(self) -> bytes:
        """All that is left, for an answer that turned out to be no stream."""
        return self._response.read()

    def close(self) -> None:
        self._patience._socket = None
        self._response.close()
        self._connection.close()


_idle: dict[tuple[str, str], list[tuple[float, http.client.HTTPConnection]]] = {}
_lock = threading.Lock()


def _forked() -> None:
    """A fork must not speak on its parent's connections; and a thread of the parent may have held the lock."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()


os.register_at_fork(after_in_child=_forked)


def exchange(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | Iterable[bytes] | None,
    timeout_s: float,
    patience: Patience,
    streams: bool = False,
) -> Answer:
    """One request and its response. `streams`: a 200 comes back unread, as `Answer.stream`.

    Raises NotSent, OSError, http.client.HTTPException; Abandoned.
    """
    parts = urlsplit(url)
    place = (parts.scheme, parts.netloc)
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    patience.check()
    connection = _take(place) or _connect(place)
    sock: _PatientSocket = connection.sock  # type: ignore[assignment]
    patience._socket = sock
    keep = False
    try:
        sock.serve(timeout_s, patience)
        connection.request(method, path, body=body, headers=dict(headers), encode_chunked=not isinstance(body, bytes))
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        if streams and response.status == 200:
            keep = True
            return Answer(200, found, b"", Stream(connection, response, sock, timeout_s, patience))
        data = response.read()
        if not response.will_close:
            patience._socket = None
            keep = True  # before it is another call's, which a cancel here must not close
            _give_back(place, connection)
        return Answer(response.status, found, data)
    except (OSError, http.client.HTTPException):
        patience.check()
        raise
    finally:
        if not keep:
            patience._socket = None
            connection.close()


def _connect(place: tuple[str, str]) -> http.client.HTTPConnection:
    kind = http.client.HTTPSConnection if place[0] == "https" else http.client.HTTPConnection
    connection = kind(place[1], timeout=CONNECT_MAX_S)
    try:
        connection.connect()
    except OSError as error:
        connection.close()
        raise NotSent(*error.args) from error
    _keep_honest(connection.sock)
    connection.sock = _PatientSocket(connection.sock)
    return connection


def _keep_honest(sock: socket.socket) -> None:
    """A machine that vanished is noticed within half a minute, however long the answer may take."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _take(place: tuple[str, str]) -> http.client.HTTPConnection | None:
    with _lock:
        kept = _idle.get(place)
        while kept:
            since, connection = kept.pop()
            if monotonic() - since < IDLE_MAX_S and not _has_ended(connection):
                return connection
            connection.close()
    return None


def _has_ended(connection: http.client.HTTPConnection) -> bool:
    """An idle connection has nothing to say, so what can be read is its end."""
    if connection.sock is None:
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def _give_back(place: tuple[str, str], connection: http.client.HTTPConnection) -> None:
    with _lock:
        kept = _idle.setdefault(place, [])
        if len(kept) < IDLE_CONNECTIONS_MAX:
            kept.append((monotonic(), connection))
            return
    connection.close()
