"""What a call carries from the job or request that makes it: who waits already, and until when."""

from __future__ import annotations

from time import monotonic, time

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

    __slots__ = ("deadline", "endpoint", "hops", "trace")

    def __init__(self, endpoint: str | None) -> None:
        """Raises CallCycle when the call would come back to one that waits, JobTimedOut when no time is left."""
        here = this_worker.WORKER
        now = here.context() if here is not None else None
        self.endpoint = endpoint or ""
        self.hops: tuple[str, ...] = (*now._hops, here.endpoint) if here is not None and now is not None else ()
        self.deadline = now.deadline if now is not None else None
        """Seconds since the epoch; None without one."""
        self.trace = trace_headers()
        if endpoint in self.hops:
            raise call_cycle(self.hops, self.endpoint)
        if self.deadline is not None and self.deadline <= time():
            raise self.timed_out()

    def patience(self, seconds: float | None = None) -> Patience:
        """Until the deadline, or for `seconds` where that is less."""
        left = None if self.deadline is None else self.deadline - time()
        bounds = [each for each in (left, seconds) if each is not None]
        return Patience(monotonic() + min(bounds) if bounds else None)

    def left_ms(self) -> int | None:
        return None if self.deadline is None else max(0, int((self.deadline - time()) * 1000))

    def envelope(self) -> dict[str, Any]:
        """The reserved member of a job's input."""
        found: dict[str, Any] = {"tagged": True}
        if self.hops:
            found["hops"] = list(self.hops)
        if self.deadline is not None:
            found["deadline"] = int(self.deadline * 1000)
        return {TAG: found}

    def headers(self) -> dict[str, str]:
        """The same for a request."""
        found = {"X-Svc-Tagged": "1", **self.trace}
        if self.hops:
            found["X-Svc-Hops"] = ",".join(self.hops)
        if self.deadline is not None:
            found["X-Svc-Deadline"] = str(int(self.deadline * 1000))
        return found

    def timed_out(self, job_id: str = "") -> JobTimedOut:
        return JobTimedOut("the caller's own deadline passed before it was done", endpoint=self.endpoint, job_id=job_id)
