"""Processes that user code forks: they leave the worker's signal handlers and link behind before they hear a signal."""

from __future__ import annotations

import os
import signal
import threading


def leave_worker(forked) -> None:
    """Calls `forked()` in each child. A SIGTERM that comes before would run into a handler that is about to go, and be lost."""
    before = threading.local()

    def hold() -> None:
        before.mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))

    def let_go() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before.mask)

    def in_child() -> None:
        forked()
        let_go()

    os.register_at_fork(before=hold, after_in_parent=let_go, after_in_child=in_child)
