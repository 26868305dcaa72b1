"""Where the kernel has no group for each worker: looks at what workers hold, and ends one that holds more than it may.

An rlimit counts what one process allocates; memory that is shared, and what the worker's own children hold, it does not
count.
"""

from __future__ import annotations

from time import monotonic

from svc._runtime.confine import kernel
from svc._runtime.limits import MEMORY_WATCH_S
from svc._runtime.process.worker_record import WorkerRecord, over_memory


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
