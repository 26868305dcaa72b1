"""Workers whose process is stopped, by SIGSTOP: they are not dead and may go on. One that stays stopped is killed.

Nobody else would notice: its link stays open, and its jobs would wait for their execution time-out.
"""

from __future__ import annotations

from time import monotonic

from svc._runtime.confine.kernel import is_stopped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from svc._runtime.process.worker_record import WorkerRecord

_LOOKS = 4


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
        stopped = [record for record in self._workers.values() if record.pid and is_stopped(record.pid)]
        self._looks = {record.id: self._looks.get(record.id, 0) + 1 for record in stopped}
        return [record for record in stopped if self._looks[record.id] > _LOOKS]
