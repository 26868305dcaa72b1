"""A function over many items: a bounded number of calls at once, the results in the items' order or as they come.

                 ┌──────────── at most concurrency × MAP_AHEAD ───────────┐
    items ──take─▶ under way (at most concurrency) ──done─▶ waits to be handed on ──▶ the caller

Nothing is taken beyond that, so what a map holds does not grow with its items.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque

from svc._calling import arguments
from svc._calling.connections import Abandoned
from svc._calling.dispatch import Prepared, prepare
from svc._calling.limits import LOOK_S, MAP_AHEAD, MAP_CONCURRENCY_MAX
from svc._calling.threads import goodbyes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from typing import Any, AsyncIterator, Iterator

    from svc._calling.progress import Progress
    from svc.remote_function import RemoteFunction

    Function = RemoteFunction[..., Any]


class _Slot:
    """One item and what came of it."""

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
    function: Function,
    items: Iterator[tuple[Any, ...]],
    concurrency: int,
    return_exceptions: bool,
    ordered: bool,
    progress: Progress | None = None,
) -> Iterator[Any]:
    """Threads take the items; the iterator hands their results on, and stops them when it is closed."""
    check_concurrency(concurrency)
    if arguments.is_generator(function.__wrapped__):
        raise TypeError(f"{function.__name__} is a generator: map has one result an item")
    if function.is_here():
        return _map_here(function, items, return_exceptions, progress)
    return _Mapped(function, items, concurrency, return_exceptions, ordered, progress).results()


def _map_here(
    function: Function, items: Iterator[tuple[Any, ...]], return_exceptions: bool, progress: Progress | None
) -> Iterator[Any]:
    import asyncio

    try:
        for args in items:
            failed = False
            try:
                value = function.__wrapped__(*args)
                result = asyncio.run(value) if hasattr(value, "__await__") else value
            except Exception as error:
                if not return_exceptions:
                    raise
                result, failed = error, True
            if progress is not None:
                progress.step(failed)
            yield result
    finally:
        if progress is not None:
            progress.end()


class _Mapped:
    """A map under way. Each thread that takes an item starts the next thread, until there are enough."""

    def __init__(
        self,
        function: Function,
        items: Iterator[tuple[Any, ...]],
        concurrency: int,
        return_exceptions: bool,
        ordered: bool,
        progress: Progress | None,
    ) -> None:
        self._function = function
        self._progress = progress
        self._items = items
        self._concurrency = concurrency
        self._return_exceptions = return_exceptions
        self._ordered = ordered
        self._state = threading.Condition()
        self._taking = threading.Lock()
        """Held while an item is taken, so that slots stand in the items' order."""
        self._next: deque[_Slot] = deque()
        """What is handed on, in this order: all that was taken, or, where the order is free, what is done."""
        self._held = 0
        """Items that were taken and not handed on."""
        self._running: set[_Slot] = set()
        self._exhausted = False
        self._closed = False
        self._threads = 0
        self._context = contextvars.copy_context()

    def results(self) -> Iterator[Any]:
        """Closing it, or forgetting it, ends everything."""
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
            if self._progress is not None:
                self._progress.end()

    def _first(self) -> _Slot | None:
        with self._state:
            if self._threads == 0:
                self._start_thread()
            while True:
                if self._next and self._next[0].done:
                    self._held -= 1
                    self._state.notify_all()
                    return self._next.popleft()
                if self._exhausted and self._held == 0:
                    return None
                self._state.wait(LOOK_S)  # in steps, so that a cancel of this thread is noticed

    def _start_thread(self) -> None:
        """Where the machine has no more, those that there are do the work. Raises RuntimeError where there is none."""
        if self._threads >= self._concurrency or self._exhausted or self._closed:
            return
        try:
            threading.Thread(target=self._context.copy().run, args=(self._work,), name="svc-map", daemon=True).start()
        except RuntimeError:
            if self._threads == 0:
                raise
        else:
            self._threads += 1

    def _work(self) -> None:
        leaving = goodbyes()
        while (slot_args := self._take()) is not None:
            slot, args = slot_args
            try:
                prepared = prepare(self._function, arguments.bind(self._function, args, {}))
                leaving.begin(prepared.patience)
                try:
                    slot.prepared = prepared
                    if self._closed:
                        raise Abandoned
                    slot.value = prepared.run()
                finally:
                    leaving.end(prepared.patience)
            except BaseException as error:
                slot.error = error
            self._finish(slot)

    def _finish(self, slot: _Slot) -> None:
        if self._progress is not None and not self._closed:  # What the end of the map gave up has not failed.
            self._progress.step(slot.error is not None)
        with self._state:
            slot.done = True
            slot.prepared = None
            self._running.discard(slot)
            if not self._ordered:
                self._next.append(slot)
            self._state.notify_all()

    def _take(self) -> tuple[_Slot, tuple[Any, ...]] | None:
        """The next item; None when there is none for this thread. An iterable that is slow holds up no results."""
        with self._taking:
            with self._state:
                while not self._closed and not self._exhausted and self._held >= self._concurrency * MAP_AHEAD:
                    self._state.wait()
                is_over = self._closed or self._exhausted
            slot, args = _Slot(), None
            try:
                args = None if is_over else next(self._items)
            except StopIteration:
                pass
            except BaseException as error:  # of the caller's own iterable: it stands where its item would
                slot.done, slot.error = True, error
            with self._state:
                if args is not None or slot.done:
                    self._held += 1
                if slot.done or (args is not None and self._ordered):
                    self._next.append(slot)
                if args is None:
                    self._exhausted = True
                    self._threads -= 1
                    self._state.notify_all()
                    return None
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
                goodbyes().give_up(prepared.patience)


async def map_items_async(
    function: Function,
    items: Iterator[tuple[Any, ...]],
    concurrency: int,
    return_exceptions: bool,
    ordered: bool,
    progress: Progress | None = None,
) -> AsyncIterator[Any]:
    """The same in an event loop: tasks instead of an iterator's own threads."""
    import asyncio

    check_concurrency(concurrency)
    tasks: dict[asyncio.Task[Any], None] = {}  # what was taken and not handed on, in order
    finished: deque[asyncio.Task[Any]] = deque()
    running = 0
    some_ended = asyncio.Event()

    def ended(task: asyncio.Task[Any]) -> None:
        nonlocal running
        running -= 1
        finished.append(task)
        some_ended.set()
        if progress is not None:
            progress.step(task.cancelled() or task.exception() is not None)

    try:
        exhausted = False
        while True:
            while not exhausted and len(tasks) < concurrency * MAP_AHEAD and running < concurrency:
                try:
                    args = next(items)
                except StopIteration:
                    exhausted = True
                    break
                task = asyncio.ensure_future(function.aio(*args))
                task.add_done_callback(ended)
                tasks[task] = None
                running += 1
            if not tasks:
                return
            first = next(iter(tasks)) if ordered else finished[0] if finished else None
            if first is None or not first.done():
                some_ended.clear()
                await some_ended.wait()
                continue
            if ordered:
                finished.clear()
            else:
                finished.popleft()
            del tasks[first]
            error = first.exception()
            if error is None:
                yield first.result()
            elif return_exceptions:
                yield error
            else:
                raise error
    finally:
        if progress is not None:
            progress.end()
        for task in tasks:
            task.cancel()
