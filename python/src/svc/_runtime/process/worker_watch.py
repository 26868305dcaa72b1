"""Looks at workers from time to time: one that holds more memory or made more processes than it may is ended, and one
that stays stopped.

Memory and processes are looked at where the kernel has no group for each worker. An rlimit counts what one process
allocates; memory that is shared, and what the worker's own children hold, it does not count. Processes it counts for all
workers of a revision together.
A worker whose process is stopped, by SIGSTOP, is not dead and may go on. Nobody else would notice one that does not: its
link stays open, and its jobs would wait for their execution time-out.
"""

from __future__ import annotations

from time import monotonic

from svc._runtime.confine import kernel
from svc._runtime.limits import LIMIT_WATCH_S, WORKER_PIDS_MAX
from svc._runtime.process.worker_record import WorkerRecord, over_memory

_LOOKS = 4


class LimitWatch:
    """`kill(record)` ends a worker and what it started. `look_at` is when to call `on_time` next, or None."""

    def __init__(self, kill) -> None:
        self._kill = kill
        self._watched: dict[str, WorkerRecord] = {}
        self.look_at: float | None = None

    def begun(self, record: WorkerRecord) -> None:
        if record.group is not None and record.group.kind == "rlimit":
            self._watched[record.id] = record
            self.look_at = self.look_at or monotonic() + LIMIT_WATCH_S

    def ended(self, record: WorkerRecord) -> None:
        self._watched.pop(record.id, None)

    def on_time(self) -> None:
        if self.look_at is None or monotonic() < self.look_at:
            return
        for record in list(self._watched.values()):
            reason = "" if record.killed or not record.pid else _excess(record)
            if reason:
                record.killed = reason
                self._kill(record)
        self.look_at = monotonic() + LIMIT_WATCH_S if self._watched else None


def _excess(record: WorkerRecord) -> str:
    """Of what it has more than it may, in words; "" for nothing."""
    family = [record.pid, *kernel.descendants_of(record.pid)]
    if len(family) > WORKER_PIDS_MAX:
        return f"killed: limit of {WORKER_PIDS_MAX} processes"
    return over_memory(record) if _hold_more(family, record.start["memoryBytes"]) else ""


def _hold_more(family: list[int], bound: int) -> bool:
    """The quick sum counts shared pages several times; only when it is over the bound they are divided among their users."""
    return sum(map(kernel.resident_bytes, family)) > bound and sum(map(kernel.proportional_bytes, family)) > bound


class StoppedWorkers:
    """Looks a few times in `max_s`. `look_at` is when to call `overdue` next, or None."""

    def __init__(self, workers: dict[str, WorkerRecord], max_s: float) -> None:
        self._workers = workers
        self._pause_s = max_s / _LOOKS
        self._looks: dict[str, int] = {}
        """How often in a row a worker was seen stopped."""
        self._next = 0.0

    @property
    def look_at(self) -> float | None:
        return self._next if self._workers else None

    def overdue(self) -> list[WorkerRecord]:
        """Those that were stopped all the time. Looks are counted, not seconds: this process may have been stopped too."""
        now = monotonic()
        if now < self._next:
            return []
        self._next = now + self._pause_s
        stopped = [record for record in self._workers.values() if record.pid and kernel.is_stopped(record.pid)]
        self._looks = {record.id: self._looks.get(record.id, 0) + 1 for record in stopped}
        return [record for record in stopped if self._looks[record.id] > _LOOKS]
