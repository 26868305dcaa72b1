"""Reads the next work without going to sleep, where that has been worth it.

A process that sleeps is woken late, by up to 50 µs on virtual machines, and goes on with cold caches. Looking again and
again costs processor time instead, so it stops after BUSY_POLL_S, and where it was in vain it is left out for a while,
longer each time: a worker whose work comes seldom polls before one wait of BUSY_POLL_PAUSE_MAX + 1. Whoever else wants the
processor gets it between two looks.
"""

from __future__ import annotations

import os
import socket
from time import perf_counter

from svc._runtime.limits import BUSY_POLL_PAUSE_MAX, BUSY_POLL_S


class BusyPoll:
    __slots__ = ("_pause", "_read", "_skip")

    def __init__(self, read) -> None:
        """`read` is a Connection's."""
        self._read = read
        self._skip = 0
        """Waits to leave out."""
        self._pause = 0

    def read(self) -> list | None:
        """As `Connection.read`: frames, in order; None when the link broke."""
        if self._skip:
            self._skip -= 1
            return self._read()
        end = perf_counter() + BUSY_POLL_S
        while perf_counter() < end:
            frames = self._read(socket.MSG_DONTWAIT)
            if frames is None or frames:
                self._pause = 0
                return frames
            os.sched_yield()
        self._skip = self._pause = min(2 * self._pause + 1, BUSY_POLL_PAUSE_MAX)
        return self._read()
