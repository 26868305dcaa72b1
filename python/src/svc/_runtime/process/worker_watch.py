"""Looks at workers from time to time: one that holds more memory than it may is ended, and one that stays stopped.

Memory is looked at where the kernel has no group for each worker. An rlimit counts what one process allocates; memory
that is shared, and what the worker's own children hold, it does not count.
A worker whose process is stopped, by SIGSTOP, is not dead and may go on. Nobody else would notice one that does not: its
link stays open, and its jobs would wait for their execution time-out.
"""

from __future__ import annotations

from time import monotonic

from svc._runtime.confine import kernel
from svc._runtime.limits import MEMORY_WATCH_S
from svc._runtime.process.worker_record import WorkerRecord, over_memory

_LOOKS = 4


class MemoryWatch:
    """`kill(record)` ends a worker and what it started. `look_at` is when to call `on_time` next, or None."""

    def __init__(self, kill) -> None:
        self._kill = kill
        self._watched: dict[str, WorkerRecord] = {}
        self.look_at: float | None = None

    def begun(self, record: WorkerRecord) -> None:
        if record.group is not None and record.group.kind == "rlimit":
            self._watched[record.id] = record
            self.look_at = self.look_at or monotonic() + MEMORY_WATCH_S

    def ended(self, record: WorkerRecord) -> None:
        self._watched.pop(record.id, None)

    def on_time(self) -> None:
        if self.look_at is None or monotonic() < self.look_at:
            return
        for record in list(self._watched.values()):
            if not record.killed and record.pid and _holds_more(record.pid, record.start["memoryBytes"]):
                record.killed = over_memory(record)
                self._kill(record)
        self.look_at = monotonic() + MEMORY_WATCH_S if self._watched else None


def _holds_more(pid: int, bound: int) -> bool:
    """The quick sum counts shared pages several times; only when it is over the bound they are divided among their users."""
    family = [pid, *kernel.descendants_of(pid)]
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
