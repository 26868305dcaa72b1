"""What a running function can ask and say about its own job: `context()` and `progress()`."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from time import monotonic, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Sequence


class Cancelled(BaseException):
    """Raised inside a running function when its job is cancelled or times out.

    Derives from BaseException so that `except Exception` does not swallow it. Clean up in `finally` and let it pass:
    the worker's process is killed when the function goes on for longer than the grace period.
    """


class Context:
    """The job or request that runs now."""

    __slots__ = (
        "attempt", "channel", "endpoint", "environment", "job_id", "method", "path", "worker_id",
        "_cancelled", "_ends_at", "_headers", "_hops", "_report", "_traceparent",
    )  # fmt: skip

    job_id: str
    """Id of the job, or of the request."""
    endpoint: str
    """The endpoint's name."""
    environment: str
    """The environment's name, e.g. "production"; "" outside one."""
    worker_id: str
    attempt: int
    """From 1: which attempt at the job this is, at an endpoint with `retries`."""
    method: str
    """HTTP method of a request; "" for a job."""
    path: str
    """Path of a request; "" for a job."""
    channel: int

    def __init__(
        self,
        job_id: str = "",
        endpoint: str = "",
        environment: str = "",
        worker_id: str = "",
        timeout_ms: float | None = None,
        channel: int = 0,
        report: Callable[[Any], None] | None = None,
    ) -> None:
        self.job_id = job_id
        self.endpoint = endpoint
        self.environment = environment
        self.worker_id = worker_id
        self._ends_at = monotonic() + timeout_ms / 1000 if timeout_ms else None
        self.attempt = 1
        self.method = ""
        self.path = ""
        self._headers: Sequence[tuple[str, str]] = ()
        self._hops: tuple[str, ...] = ()
        self._traceparent = ""
        self.channel = channel
        self._cancelled = False
        self._report = report

    @property
    def headers(self) -> dict[str, str]:
        """Headers of a request by lower-case name; {} for a job."""
        return {name.lower(): value for name, value in self._headers}

    @property
    def traceparent(self) -> str:
        """What spans of the function belong to, as in the W3C header of that name; "" when nothing is traced.

        Calls of other endpoints carry it by themselves.
        """
        return self._traceparent or self.headers.get("traceparent", "")

    @property
    def cancelled(self) -> bool:
        """True from the moment the job was cancelled, timed out, or its caller went away."""
        return self._cancelled

    @property
    def deadline(self) -> float | None:
        """Seconds since the epoch (`time.time()`) at which the execution time-out ends the job; None without one. It is
        counted by a clock that is never set: where the machine's is, it moves along."""
        return None if self._ends_at is None else time() + self._ends_at - monotonic()

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the deadline, not below 0; None without one."""
        return None if self._ends_at is None else max(0.0, self._ends_at - monotonic())


current: ContextVar[Context | None] = ContextVar("svc_context", default=None)


class _Foreground:
    """The context of a worker that runs one thing at a time: threads the function starts see it too."""

    __slots__ = ("context",)

    def __init__(self) -> None:
        self.context: Context | None = None


foreground = _Foreground()


def context() -> Context:
    """The job or request that runs now. Called outside a worker: an empty one, so that functions run locally."""
    return current.get() or foreground.context or Context()


def progress(value: Any) -> None:
    """Reports progress: any JSON value. It stands as `output` in the job's status while the job runs.

    Outside a worker it is printed to stderr.
    """
    now = context()
    if now._report is None:
        print(f"progress: {value!r}", file=sys.stderr)
    else:
        now._report(value)
