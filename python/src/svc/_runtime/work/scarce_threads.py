"""Threads on a machine that may have none left for a while: what was taken on waits for one, and is not lost with its worker."""

from __future__ import annotations

import _thread
import sys

from svc._runtime.limits import THREAD_AGAIN_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import Executor


_told = False


def tell_once() -> None:
    """Into the logs of the endpoint: that there is none now."""
    global _told
    if not _told:
        _told = True
        text = "no thread can be started here now (pids.max or ulimit -u is reached): what needs one waits"
        sys.stderr.write(f"[svc] {text}\n")


def start_thread(run, *arguments) -> bool:
    """False: there is none now. Not threading.Thread: its start waits for the other side, which a cold start feels."""
    try:
        _thread.start_new_thread(run, arguments)
    except RuntimeError:
        tell_once()
        return False
    return True


async def run_in(pool: Executor, function, *arguments):
    """Runs it in a thread of the pool, as soon as there is one. Raises what it raises."""
    import asyncio
    from concurrent.futures import Future

    def run(call: Future) -> None:
        if not call.set_running_or_notify_cancel():
            return
        try:
            call.set_result(function(*arguments))
        except BaseException as error:
            call.set_exception(error)

    while True:
        call: Future = Future()
        try:
            pool.submit(run, call)
        except RuntimeError:
            tell_once()
            # The pool has kept it, for a thread that it has or gets: one that has begun goes on.
            if call.cancel():
                await asyncio.sleep(THREAD_AGAIN_S)
                continue
        return await asyncio.wrap_future(call)
