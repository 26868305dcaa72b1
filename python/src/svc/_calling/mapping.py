"""A function over many items: a bounded number of calls at once, the results in the items' order."""

from __future__ import annotations

import contextvars
import threading
from collections import deque

from svc import this_worker
from svc._calling import arguments
from svc._calling.connections import Abandoned
from svc._calling.dispatch import Prepared, prepare
from svc._calling.limits import LOOK_S, MAP_AHEAD, MAP_CONCURRENCY_MAX

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from typing import Any, AsyncIterator, Iterator

    from svc.function import RemoteFunction

    Function = RemoteFunction[..., Any]


class _Slot:
    """One item's place in the order."""

    __slots__ = ("done", "error", "prepared", "value")

    def __init__(self) -> None:
        self.done = False
        self.error: BaseException | None = None
        self.value: Any = None
        self.prepared: Prepared | None = None


def check_concurrency(concurrency: int) -> int:
    if not 1 <= concurrency <= MAP_CONCURRENCY_MAX:
        raise ValueError(f"concurrency is 1 to {MAP_CONCURRENCY_MAX}, not {concurrency}")
    return concurrency


def map_items(
    function: Function, items: Iterator[tuple[Any, ...]], concurrency: int, return_exceptions: bool
) -> Iterator[Any]:
    """Threads take the items; the iterator hands their results on, and stops them when it is closed."""
    check_concurrency(concurrency)
    if arguments.is_generator(function.__wrapped__):
        raise TypeError(f"{function.__name__} is a generator: map has one result an item")
    if this_worker.is_own(function.endpoint.name):
        return _map_here(function, items, return_exceptions)
    return _Mapped(function, items, concurrency, return_exceptions).results()


def _map_here(function: Function, items: Iterator[tuple[Any, ...]], return_exceptions: bool) -> Iterator[Any]:
    import asyncio

    for args in items:
        try:
            value = function.__wrapped__(*args)
            yield asyncio.run(value) if hasattr(value, "__await__") else value
        except Exception as error:
            if not return_exceptions:
                raise
            yield error


class _Mapped:
    """A map under way. Each thread that takes an item starts the next thread, until there are enough."""

    def __init__(
        self, function: Function, items: Iterator[tuple[Any, ...]], concurrency: int, return_exceptions: bool
    ) -> None:
        self._function = function
        self._items = items
        self._concurrency = concurrency
        self._return_exceptions = return_exceptions
        self._state = threading.Condition()
        self._order: deque[_Slot] = deque()
        self._running: set[_Slot] = set()
        self._exhausted = False
        self._closed = False
        self._threads = 0
        self._context = contextvars.copy_context()

    def results(self) -> Iterator[Any]:
        """In order. Closing it, or forgetting it, ends everything."""
        try:
            while (slot := self._first()) is not None:
                if slot.error is None:
                    yield slot.value
                elif self._return_exceptions and isinstance(slot.error, Exception):
                    yield slot.error
                else:
                    raise slot.error
        finally:
            self._close()

    def _first(self) -> _Slot | None:
        with self._state:
            if self._threads == 0:
                self._start_thread()
            while True:
                if self._order and self._order[0].done:
                    slot = self._order.popleft()
                    self._state.notify_all()
                    return slot
                if self._exhausted and not self._order:
                    return None
                self._state.wait(LOOK_S)  # in steps, so that a cancel of this thread is noticed

    def _start_thread(self) -> None:
        if self._threads < self._concurrency and not self._exhausted and not self._closed:
            self._threads += 1
            threading.Thread(target=self._context.copy().run, args=(self._work,), name="svc-map", daemon=True).start()

    def _work(self) -> None:
        while (slot_args := self._take()) is not None:
            slot, args = slot_args
            try:
                slot.prepared = prepare(self._function, arguments.bind(self._function, args, {}))
                if self._closed:
                    raise Abandoned
                slot.value = slot.prepared.run()
            except BaseException as error:
                slot.error = error
            with self._state:
                slot.done = True
                slot.prepared = None
                self._running.discard(slot)
                self._state.notify_all()

    def _take(self) -> tuple[_Slot, tuple[Any, ...]] | None:
        """The next item; None when there is none for this thread."""
        with self._state:
            while not self._closed and not self._exhausted and len(self._order) >= self._concurrency * MAP_AHEAD:
                self._state.wait()
            slot = _Slot()
            try:
                args = None if self._closed or self._exhausted else next(self._items)
            except StopIteration:
                args = None
            except BaseException as error:  # of the caller's own iterable: it stands where its item would
                args = None
                slot.done, slot.error = True, error
                self._order.append(slot)
            if args is None:
                self._exhausted = True
                self._threads -= 1
                self._state.notify_all()
                return None
            self._order.append(slot)
            self._running.add(slot)
            self._start_thread()
            return slot, args

    def _close(self) -> None:
        """Stops taking items and cancels the calls that are on their way."""
        with self._state:
            self._closed = True
            running = [slot.prepared for slot in self._running]
            self._state.notify_all()
        for prepared in running:
            if prepared is not None:
                prepared.patience.give_up()


async def map_items_async(
    function: Function, items: Iterator[tuple[Any, ...]], concurrency: int, return_exceptions: bool
) -> AsyncIterator[Any]:
    """The same in an event loop: tasks instead of an iterator's own threads."""
    import asyncio

    check_concurrency(concurrency)
    tasks: deque[asyncio.Task[Any]] = deque()
    try:
        exhausted = False
        while True:
            while not exhausted and len(tasks) < concurrency * MAP_AHEAD and _running(tasks) < concurrency:
                try:
                    args = next(items)
                except StopIteration:
                    exhausted = True
                    break
                tasks.append(asyncio.ensure_future(function.aio(*args)))
            if not tasks:
                return
            if not tasks[0].done():
                await asyncio.wait([task for task in tasks if not task.done()], return_when=asyncio.FIRST_COMPLETED)
                continue
            task = tasks.popleft()
            error = task.exception()
            if error is None:
                yield task.result()
            elif return_exceptions:
                yield error
            else:
                raise error
    finally:
        for task in tasks:
            task.cancel()


def _running(tasks: deque[asyncio.Task[Any]]) -> int:
    return sum(not task.done() for task in tasks)
