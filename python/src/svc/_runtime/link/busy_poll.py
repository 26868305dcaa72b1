"""Waiting for the next work without going to sleep, where that has been worth it.

A process that sleeps is woken late, by up to 50 µs on virtual machines, and goes on with cold caches. Looking again and
again costs processor time instead, so it stops after BUSY_POLL_S, and where it was in vain it is left out for a while,
longer each time: a worker whose work comes seldom polls before one wait of BUSY_POLL_PAUSE_MAX + 1. Whoever else wants
the processor gets it between two looks.
"""

from __future__ import annotations

import os
import socket
from time import perf_counter

from svc._runtime.limits import BUSY_POLL_PAUSE_MAX, BUSY_POLL_S


class _Experience:
    """Whether polling is worth another try."""

    __slots__ = ("_pause", "_skip")

    def __init__(self) -> None:
        self._pause = 0
        self._skip = 0
        """Waits to leave out."""

    def advises(self) -> bool:
        if self._skip:
            self._skip -= 1
            return False
        return True

    def note(self, worth_it: bool) -> None:
        self._skip = self._pause = 0 if worth_it else min(2 * self._pause + 1, BUSY_POLL_PAUSE_MAX)


class BlockingPoll:
    """For a thread that reads."""

    __slots__ = ("_experience", "_read")

    def __init__(self, read) -> None:
        """`read` is a Connection's."""
        self._read = read
        self._experience = _Experience()

    def read(self) -> list | None:
        """As `Connection.read`: frames, in order; None when the link broke."""
        if not self._experience.advises():
            return self._read()
        end = perf_counter() + BUSY_POLL_S
        while True:
            frames = self._read(socket.MSG_DONTWAIT)
            if frames is None or frames:
                self._experience.note(True)
                return frames
            if perf_counter() > end:
                break
            os.sched_yield()
        self._experience.note(False)
        return self._read()


class LoopPoll:
    """For an event loop, which goes on with everything else meanwhile."""

    __slots__ = ("_experience", "_loop", "_polling", "_until")

    def __init__(self, loop) -> None:
        self._loop = loop
        self._experience = _Experience()
        self._polling = False
        self._until = 0.0
        """0 when what was expected is there."""

    def expect(self) -> None:
        """Work may come in a moment."""
        if not self._polling:
            if not self._experience.advises():
                return
            self._polling = True
            self._loop.call_soon(self._turn)
        self._until = perf_counter() + BUSY_POLL_S

    def arrived(self) -> None:
        self._until = 0.0

    def _turn(self) -> None:
        if self._until and perf_counter() < self._until:
            os.sched_yield()
            self._loop.call_soon(self._turn)
            return
        self._polling = False
        self._experience.note(not self._until)
