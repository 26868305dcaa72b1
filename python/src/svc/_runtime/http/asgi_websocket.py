"""A WebSocket connection of an ASGI application, on the connection that `.websocket` routes use.

    scope websocket ─▶ connect ─▶ accept ─▶ receive / send ─▶ close, or disconnect
                             └──▶ close: 403, or an answer of the application's own (websocket.http.response)

Messages are read ahead, a few of them, so that an application that only sends answers pings and hears of the end.
"""

from __future__ import annotations

import asyncio

from svc._runtime.http.reply import Reply
from svc._runtime.http.websocket_route import Socket
from svc._runtime.limits import ASGI_MESSAGES_AHEAD, LOAD_BALANCED_BODY_MAX_BYTES
from svc.websocket import SocketClosed


class Disconnected(OSError):
    """What the specification asks for when an application sends to a caller that is gone."""


class SocketExchange:
    """The two callables of ASGI."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._events: asyncio.Queue = asyncio.Queue(ASGI_MESSAGES_AHEAD)
        self._events.put_nowait({"type": "websocket.connect"})
        self._reader: asyncio.Task | None = None
        self._gone: SocketClosed | None = None
        self._answer: Reply | None = None
        self.decided = False
        """Accepted or refused."""

    async def receive(self) -> dict:
        if self._gone is not None and self._events.empty():
            return _disconnect(self._gone)
        return await self._events.get()

    async def send(self, message: dict) -> None:
        kind = message["type"]
        if kind == "websocket.accept":
            await self._accept(message)
        elif kind == "websocket.send":
            await self._send(message)
        elif kind == "websocket.close":
            self.decided = True
            await self._socket.close(message.get("code") or 1000, message.get("reason") or "")
            self.broke_off()
        elif kind == "websocket.http.response.start":
            headers = [[name.decode("latin-1").lower(), value.decode("latin-1")] for name, value in message["headers"]]
            self._answer = Reply(message["status"], headers)
        elif kind == "websocket.http.response.body":
            self._answer.body += message.get("body", b"")
            if len(self._answer.body) > LOAD_BALANCED_BODY_MAX_BYTES:
                raise ValueError(f"the refusal of a WebSocket takes over {LOAD_BALANCED_BODY_MAX_BYTES} bytes")
            if not message.get("more_body", False):
                self.decided = True
                self._socket.refusal = self._answer
                await self._socket.close()
                self.broke_off()
        else:
            raise RuntimeError(f"an ASGI application cannot send {kind!r} on a WebSocket")

    async def _accept(self, message: dict) -> None:
        headers = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in message.get("headers") or ()]
        await self._socket.accept(message.get("subprotocol"), headers)
        self.decided = True
        self._reader = asyncio.ensure_future(self._read())

    async def _send(self, message: dict) -> None:
        if not self._socket.accepted:
            raise RuntimeError("websocket.send came before websocket.accept")
        text = message.get("text")
        try:
            await self._socket.send(bytes(message["bytes"]) if text is None else text)
        except SocketClosed as closed:
            raise Disconnected(str(closed)) from None

    async def _read(self) -> None:
        try:
            while True:
                message = await self._socket.receive()
                field = "text" if isinstance(message, str) else "bytes"
                await self._events.put({"type": "websocket.receive", field: message})
        except SocketClosed as closed:
            self._gone = closed
            await self._events.put(_disconnect(closed))

    def broke_off(self) -> None:
        """The caller is gone without a word, perhaps before the connection was accepted, or was refused."""
        if self._reader is None and self._gone is None:
            self._gone = SocketClosed(1006)
            self._events.put_nowait(_disconnect(self._gone))

    def end(self) -> None:
        if self._reader is not None:
            self._reader.cancel()


def _disconnect(closed: SocketClosed) -> dict:
    return {"type": "websocket.disconnect", "code": closed.code, "reason": closed.reason}


def socket_scope(scope: dict) -> dict:
    """From the scope of an HTTP request."""
    offered = ",".join(value.decode("latin-1") for name, value in scope["headers"] if name == b"sec-websocket-protocol")
    del scope["method"]
    return {
        **scope,
        "type": "websocket",
        "scheme": "wss" if scope["scheme"] == "https" else "ws",
        "subprotocols": [name.strip() for name in offered.split(",") if name.strip()],
        "extensions": {"websocket.http.response": {}},
    }


async def run(app, scope: dict, socket: Socket, on_gone) -> None:
    """Runs the application on one connection; `on_gone(heard)` is told what to call when the caller leaves."""
    exchange = SocketExchange(socket)
    on_gone(exchange.broke_off)
    try:
        await app(socket_scope(scope), exchange.receive, exchange.send)
        if not exchange.decided:
            raise RuntimeError("the ASGI application neither accepted nor closed the WebSocket")
    finally:
        on_gone(None)
        exchange.end()
