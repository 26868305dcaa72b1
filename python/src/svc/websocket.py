"""The connection that a `.websocket(path)` route talks through."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, AsyncIterator


class SocketClosed(Exception):
    """The other side closed the connection: `code` (RFC 6455, 7.4; 1006 when it broke off) and `reason`."""

    def __init__(self, code: int = 1006, reason: str = "") -> None:
        super().__init__(f"the connection was closed with {code}{': ' + reason if reason else ''}")
        self.code = code
        self.reason = reason


class WebSocket:
    """One WebSocket connection.

        @api.websocket("/chat/{room}")
        async def chat(socket: WebSocket, room: str):
            async for message in socket:
                await socket.send(f"{room}: {message}")

    It is accepted with the first use. A function that returns closes it with 1000; one that raises, with 1011.
    """

    path: str
    headers: dict[str, str]
    """By lower-case name."""

    async def accept(self, subprotocol: str | None = None) -> None:
        """Accepts the connection, with one of the subprotocols that the caller offered."""
        raise NotImplementedError

    async def receive(self) -> str | bytes:
        """The next message: str for text, bytes for binary. Raises SocketClosed when the caller has closed."""
        raise NotImplementedError

    async def send(self, message: Any) -> None:
        """Sends str as text, bytes as binary, anything else as JSON text. Waits while the caller is slow."""
        raise NotImplementedError

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Closes the connection; before it was accepted, refuses it (the caller gets 403).

        `code` is 1000 to 1003, 1007 to 1014 or 3000 to 4999 (RFC 6455, 7.4), else ValueError; of `reason` 123 bytes are sent.
        """
        raise NotImplementedError

    async def __aiter__(self) -> AsyncIterator[str | bytes]:
        """Messages until the caller closes."""
        try:
            while True:
                yield await self.receive()
        except SocketClosed:
            return
