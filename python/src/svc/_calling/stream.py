"""Chunks of a generator that runs elsewhere."""

from __future__ import annotations

from svc._calling.threads import in_thread
from svc.generic import Generic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, TypeVar

    from svc._calling.connections import Patience

    T = TypeVar("T", covariant=True)
else:
    T = None


class RemoteStream(Generic[T]):
    """An iterator of the chunks, for `for` and `async for`. It starts with the first one asked for.

    What the generator raises is raised where its next chunk would be, as `svc.RemoteError`. `close()` (or leaving
    `with`) before the end cancels the job of a call; a job's own `stream()` just stops listening. Sync and async use
    do not mix.
    """

    def __init__(self, chunks: Callable[[Patience], Iterator[T]], patience: Patience) -> None:
        self._make = chunks
        self._chunks: Iterator[T] | None = None
        self._patience = patience

    def __iter__(self) -> RemoteStream[T]:
        return self

    def __next__(self) -> T:
        if self._chunks is None:
            self._chunks = self._make(self._patience)
        return next(self._chunks)

    def __aiter__(self) -> RemoteStream[T]:
        return self

    async def __anext__(self) -> T:
        end = object()

        def step() -> Any:
            try:
                return self.__next__()
            except StopIteration:
                return end

        value = await in_thread(step, self._patience)
        if value is end:
            raise StopAsyncIteration
        chunk: T = value
        return chunk

    def close(self) -> None:
        """Stops the stream."""
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()

    async def aclose(self) -> None:
        """`close` for asyncio code."""
        self._patience.give_up()
        if self._chunks is not None:
            await in_thread(self.close)

    def __enter__(self) -> RemoteStream[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> RemoteStream[T]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
