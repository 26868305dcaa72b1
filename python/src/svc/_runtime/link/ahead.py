"""Links that spares on hosts open ahead: when it is known which worker a spare is, nothing but HELLO is left to be said.

The ticket, which comes with START, lets a link wait at the platform, which may close it at any time: then the worker dials.
"""

from __future__ import annotations

import socket

from svc._runtime.limits import AHEAD_TIMEOUT_S, READ_BYTES
from svc._runtime.link import protocol
from svc._runtime.link.connection import TLS, dial
from svc._runtime.link.protocol import encode


class LinkAhead:
    __slots__ = ("_address", "_sock")

    def __init__(self, address: str, ticket: str | None) -> None:
        """Dials where there is something to gain; a failure is the worker's to deal with, if it still is one then."""
        self._address = address
        self._sock = None
        if not ticket or not address.startswith(TLS):
            return
        try:
            self._sock = dial(address, AHEAD_TIMEOUT_S)
            hello = {"protocol": protocol.PROTOCOL, "role": "ahead", "token": ticket}
            self._sock.sendall(encode(protocol.HELLO, 0, hello))
        except OSError:
            self.close()

    def take(self, address: str):
        """The open link to this address, once; None when there is none."""
        sock, self._sock = self._sock, None
        if sock is None:
            return None
        try:
            if address == self._address:
                sock.recv(READ_BYTES, socket.MSG_DONTWAIT)  # The platform says nothing to it: what can be read is its end.
        except BlockingIOError:
            return sock
        except OSError:
            pass
        sock.close()
        return None

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None
