"""Blocking calls for asyncio code: each waits in a daemon thread, so that none holds up a loop or the end of the
process."""

from __future__ import annotations

import atexit
import contextvars
import os
import sys
import threading
from queue import SimpleQueue

from svc._calling.connections import Patience
from svc._calling.limits import CANCEL_MAX_S, THREADS_MAX

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from typing import Any, Callable

_lock = threading.Lock()
_tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
_threads = 0
_unclaimed = 0
"""Tasks that wait and threads that wait, as their difference: above 0 there are more tasks."""


def _forked() -> None:
    """A fork has none of its parent's threads, and one of them may have held the lock."""
    global _lock, _threads, _unclaimed, _tasks, _goodbyes
    _lock, _threads, _unclaimed, _tasks, _goodbyes = threading.Lock(), 0, 0, SimpleQueue(), Goodbyes()


os.register_at_fork(after_in_child=_forked)


class Goodbyes:
    """Calls that were given up, while their daemon threads tell the platform so: the end of the process waits for these."""

    def __init__(self) -> None:
        self._state = threading.Condition()
        self._under_way: dict[Patience, int] = {}
        self._given_up: set[Patience] = set()

    def begin(self, patience: Patience) -> None:
        with self._state:
            self._under_way[patience] = self._under_way.get(patience, 0) + 1

    def end(self, patience: Patience) -> None:
        with self._state:
            self._under_way[patience] -= 1
            if self._under_way[patience] == 0:
                del self._under_way[patience]
                self._given_up.discard(patience)
                self._state.notify_all()

    def give_up(self, patience: Patience) -> None:
        with self._state:
            if patience in self._under_way:
                self._given_up.add(patience)
        patience.give_up()

    def wait(self) -> None:
        with self._state:
            self._state.wait_for(lambda: not self._given_up, CANCEL_MAX_S)


_goodbyes = Goodbyes()
atexit.register(lambda: _goodbyes.wait())


def goodbyes() -> Goodbyes:
    """Those of this process."""
    return _goodbyes


def start(task: Callable[[], None]) -> None:
    """Runs the task in a thread; beyond THREADS_MAX, and where the machine has no more, it waits for one. The task must not
    raise. Raises RuntimeError where there is no thread at all."""
    global _threads, _unclaimed
    with _lock:
        if _unclaimed >= 0 and _threads < THREADS_MAX:
            try:
                threading.Thread(target=_serve, args=(_tasks, task), name="svc-call", daemon=True).start()
            except RuntimeError:
                if _threads == 0:
                    raise
            else:
                _threads += 1
                return
        _unclaimed += 1
    _tasks.put(task)


def _serve(tasks: SimpleQueue[Callable[[], None]], task: Callable[[], None]) -> None:
    global _unclaimed
    while True:
        task()
        del task
        with _lock:
            _unclaimed -= 1
        task = tasks.get()


async def in_thread(work: Callable[[], Any], patience: Patience | None = None) -> Any:
    """The result of `work`, which sees the caller's context. Cancelling the task gives `patience` up."""
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def finish(error: BaseException | None, value: Any) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)

    def run() -> None:
        error, value = None, None
        try:
            value = context.run(work)
        except BaseException as caught:
            error = RuntimeError(f"generator ended: {caught!r}") if isinstance(caught, StopIteration) else caught
        if patience is not None:
            leaving.end(patience)
        try:
            loop.call_soon_threadsafe(finish, error, value)
        except RuntimeError:
            pass  # the loop has ended meanwhile

    leaving = _goodbyes
    if patience is not None:
        leaving.begin(patience)
    try:
        start(run)
    except RuntimeError:
        if patience is not None:
            leaving.end(patience)
        raise
    try:
        return await future
    except asyncio.CancelledError:
        if patience is not None:
            leaving.give_up(patience)
        raise


def runs_in_loop() -> bool:
    """Whether an event loop runs in this thread."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None
