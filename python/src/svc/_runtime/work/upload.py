"""The body of a request as it arrives: what a parameter annotated `Iterator[bytes]` or `AsyncIterator[bytes]` gets."""

from __future__ import annotations

import threading
from collections import deque

from svc._runtime.limits import UPLOAD_WINDOW_BYTES
from svc.context import Cancelled


class Upload:
    """Parts in order. One reader; whoever reads the platform's socket puts the parts in."""

    def __init__(self, first: bytes = b"", more: bool = False, widen=None) -> None:
        """`widen(bytes)` tells the platform that so much was taken: it sends no more than a window ahead."""
        self._parts = deque([first] if first else [])
        self._more = more
        self._widen = widen
        self._taken = 0
        self._broken = ""
        self._wake = None

    def put(self, part: bytes, more: bool) -> None:
        if part:
            self._parts.append(part)
        self._more = more
        self._notify()

    def break_off(self, reason: str) -> None:
        self._broken = reason
        self._notify()

    @property
    def is_empty(self) -> bool:
        """All of it was taken."""
        return not self._more and not self._parts

    def _notify(self) -> None:
        wake = self._wake
        if wake is not None:
            wake()

    def take(self) -> bytes | None:
        """The next part, b"" at the end, None when it has not arrived. Raises Cancelled when the caller broke off."""
        more = self._more  # Looked at first: where no more comes, the last part is there already.
        if self._parts:
            part = self._parts.popleft()
            self._taken += len(part)
            if self._taken >= UPLOAD_WINDOW_BYTES // 2 and self._more and self._widen is not None:
                self._widen(self._taken)
                self._taken = 0
            return part
        if self._broken:
            raise Cancelled(self._broken)
        return None if more else b""

    def __iter__(self) -> Upload:
        return self

    def __next__(self) -> bytes:
        arrived = threading.Event()
        self._wake = arrived.set
        while (part := self.take()) is None:
            arrived.wait()
            arrived.clear()
        if not part:
            raise StopIteration
        return part

    def __aiter__(self) -> Upload:
        return self

    async def __anext__(self) -> bytes:
        part = await self.next_part()
        if not part:
            raise StopAsyncIteration
        return part

    async def next_part(self) -> bytes:
        """The next part when it is there; b"" at the end."""
        import asyncio

        arrived = asyncio.Event()
        self._wake = arrived.set
        while (part := self.take()) is None:
            await arrived.wait()
            arrived.clear()
        return part
