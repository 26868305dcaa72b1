"""What a call carries from the job or request that makes it: who waits already, and until when."""

from __future__ import annotations

from time import monotonic

from svc import this_worker
from svc._calling.connections import Patience
from svc._values.tagged import TAG
from svc.errors import JobTimedOut, call_cycle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def trace_headers() -> dict[str, str]:
    """The header by which the trace of the job or request that runs now goes on; {} when it is in none."""
    here = this_worker.WORKER
    now = here.context() if here is not None else None
    traceparent = now.traceparent if now is not None else ""
    return {"traceparent": traceparent} if traceparent else {}


class Outgoing:
    """Taken in the thread or task that makes the call, because there its context is known."""

    __slots__ = ("endpoint", "ends_at", "hops", "trace")

    def __init__(self, endpoint: str | None) -> None:
        """Raises CallCycle when the call would come back to one that waits, JobTimedOut when no time is left."""
        here = this_worker.WORKER
        now = here.context() if here is not None else None
        self.endpoint = endpoint or ""
        self.hops: tuple[str, ...] = (*now._hops, here.endpoint) if here is not None and now is not None else ()
        self.ends_at = now._ends_at if now is not None else None
        """monotonic() at which the caller's own time is over; None without an end."""
        self.trace = trace_headers()
        if endpoint in self.hops:
            raise call_cycle(self.hops, self.endpoint)
        if self.left_ms() == 0:
            raise self.timed_out()

    def patience(self, seconds: float | None = None) -> Patience:
        """Until the deadline, or for `seconds` where that is less."""
        bounds = [self.ends_at] if self.ends_at is not None else []
        bounds += [monotonic() + seconds] if seconds is not None else []
        return Patience(min(bounds, default=None))

    def left_ms(self) -> int | None:
        return None if self.ends_at is None else max(0, int((self.ends_at - monotonic()) * 1000))

    def envelope(self) -> dict[str, Any]:
        """The reserved member of a job's input."""
        found: dict[str, Any] = {"tagged": True}
        if self.hops:
            found["hops"] = list(self.hops)
        if self.ends_at is not None:
            found["timeoutMs"] = self.left_ms()
        return {TAG: found}

    def headers(self) -> dict[str, str]:
        """The same for a request."""
        found = {"X-Svc-Tagged": "1", **self.trace}
        if self.hops:
            found["X-Svc-Hops"] = ",".join(self.hops)
        if self.ends_at is not None:
            found["X-Svc-Timeout-Ms"] = str(self.left_ms())
        return found

    def timed_out(self, job_id: str = "") -> JobTimedOut:
        return JobTimedOut("the caller's own deadline passed before it was done", endpoint=self.endpoint, job_id=job_id)
