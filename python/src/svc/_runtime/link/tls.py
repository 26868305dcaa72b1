"""The link to a platform on another machine: TLS over a socket that one thread reads while others send.

A `ssl.SSLSocket` may not be used by two threads at once, and has no MSG_DONTWAIT. Here TLS only turns bytes into
bytes, under a lock that is never held while the network waits.
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
import threading

from svc._runtime.limits import READ_BYTES

KEEP_ALIVE_S = 5
KEEP_ALIVE_PROBES = 3


"localhost".encode("idna")  # Each name that is dialled goes through this codec: forks of a zygote find it loaded.

_contexts: dict[bool, ssl.SSLContext] = {}
"""By whether the certificate is known by its fingerprint. Made in a zygote, its forks find it there."""


def context_for(pin: str) -> ssl.SSLContext:
    """Of the pinned certificate nothing but the fingerprint counts: to read the machine's authorities takes longer than a fork."""
    context = _contexts.get(bool(pin))
    if context is None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if pin else ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        if pin:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        _contexts[bool(pin)] = context
    return context


def dial_tls(host: str, port: int, pin: str, timeout_s: float, moved_up) -> SecureSocket:
    """Connects. `pin` is the SHA-256 of the platform's certificate in hexadecimal; "" trusts the machine's authorities.

    Raises OSError, also for another certificate.
    """
    sock = socket.create_connection((host, port), timeout_s)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _notice_death(sock)
        secure = SecureSocket(moved_up(sock), context_for(pin), host, timeout_s)
    except BaseException:
        sock.close()
        raise
    if pin and not hmac.compare_digest(secure.fingerprint(), pin.lower()):
        secure.close()
        raise ssl.SSLCertVerificationError("the platform's certificate is not the one this worker was told to expect")
    return secure


def _notice_death(sock: socket.socket) -> None:
    """A machine that vanishes closes nothing."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEP_ALIVE_S),
        ("TCP_KEEPINTVL", KEEP_ALIVE_S),
        ("TCP_KEEPCNT", KEEP_ALIVE_PROBES),
        ("TCP_USER_TIMEOUT", KEEP_ALIVE_S * (KEEP_ALIVE_PROBES + 1) * 1000),
    ):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class SecureSocket:
    """What the runtime uses of a socket, over TLS."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, host: str, timeout_s: float) -> None:
        self._sock = sock
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._state = threading.Lock()
        """Around `_tls` and its buffers; never held while the network waits."""
        self._sending = threading.Lock()
        """Keeps what is sent in the order in which it was made."""
        self.unsent = b""
        """Of a socket that does not block: made and not sent yet."""
        sock.settimeout(timeout_s)
        try:
            self._shake_hands()
        except BaseException:
            sock.close()
            raise
        sock.settimeout(None)

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
                self._sock.sendall(self._outgoing.read())
                return
            except ssl.SSLWantReadError:
                self._sock.sendall(self._outgoing.read())
                self._take(self._sock.recv(READ_BYTES))

    def fingerprint(self) -> str:
        return hashlib.sha256(self._tls.getpeercert(True) or b"").hexdigest()

    @property
    def is_engaged(self) -> bool:
        """Some thread turns bytes into bytes, or sends."""
        return self._state.locked() or self._sending.locked()

    def fileno(self) -> int:
        return self._sock.fileno()

    def settimeout(self, seconds: float | None) -> None:
        self._sock.settimeout(seconds)

    def setblocking(self, blocking: bool) -> None:
        self._sock.setblocking(blocking)

    def recv(self, size: int, flags: int = 0) -> bytes:
        """All that one read of the network brought (at most `size` bytes there); b"" at the end.

        Nothing stays behind that poll would not tell of. Raises BlockingIOError as a socket does.
        """
        while True:
            with self._state:
                text = self._decrypted()
            if text is not None:
                return text
            data = self._sock.recv(size, flags)
            with self._state:
                self._take(data)

    def _decrypted(self) -> bytes | None:
        parts = []
        try:
            while data := self._tls.read(READ_BYTES):
                parts.append(data)
        except ssl.SSLWantReadError:
            return b"".join(parts) if parts else None
        except ssl.SSLEOFError:
            pass
        except ssl.SSLZeroReturnError:
            pass
        return b"".join(parts)

    def _take(self, data: bytes) -> None:
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def sendall(self, data: bytes) -> None:
        with self._sending:
            data, self.unsent = self.unsent + self._encrypted(data), b""
            self._sock.sendall(data)

    def send(self, data: bytes) -> int:
        """For a socket that does not block: takes everything or, with BlockingIOError, nothing; see `unsent`."""
        with self._sending:
            if self.unsent:
                self.unsent = self.unsent[self._sock.send(self.unsent) :]
            if self.unsent:
                raise BlockingIOError
            self.unsent = self._encrypted(data)
            try:
                self.unsent = self.unsent[self._sock.send(self.unsent) :]
            except BlockingIOError:
                pass
            return len(data)

    def _encrypted(self, data: bytes) -> bytes:
        with self._state:
            if data:
                self._tls.write(data)
            return self._outgoing.read()

    def shutdown(self, how: int) -> None:
        self._sock.shutdown(how)

    def close(self) -> None:
        self._sock.close()

    def detach(self) -> None:
        self._sock.detach()
