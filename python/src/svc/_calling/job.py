"""A job of a queue-based endpoint, as its caller sees it."""

from __future__ import annotations

from time import monotonic

from svc._calling import jobs
from svc._calling.ask import TimeOver
from svc._calling.chunks import job_chunks
from svc._calling.connections import Patience
from svc._calling.limits import SHOWN_JOB_MAX_S
from svc._calling.outgoing import Outgoing
from svc._calling.stream import RemoteStream
from svc._calling.threads import in_thread
from svc.generic import Generic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Generator, Iterator, TypeVar

    from svc._calling.discovery import Target
    from svc.errors import RemoteError

    T = TypeVar("T", covariant=True)
else:
    T = None


class Job(Generic[T]):
    """A job that was handed in. `await job` waits for its output; every method has an asyncio form ending in `_aio`.

    Waiting is a long poll. Broken connections and a restart of the platform are survived: the job does not depend on
    its caller.
    Methods raise `svc.JobNotFound` when the platform does not keep the job any more (docs/reference/job-api.md), and
    `svc.PlatformError`.
    """

    id: str
    """The platform's id of it."""

    def __init__(self, target: Target, job: dict[str, Any], hints: tuple[Any, ...] = ()) -> None:
        self.id = job["id"]
        self._target = target
        self._hints = hints
        self._job = job

    @property
    def endpoint(self) -> str:
        """Name of its endpoint, or the id where only that is known."""
        return self._target.name

    def status(self) -> str:
        """Asks for its state: "IN_QUEUE", "IN_PROGRESS", "COMPLETED", "FAILED", "TIMED_OUT" or "CANCELLED"."""
        return self._update(jobs.look(self._target, self.id, Patience()))

    def wait(self, timeout: float | None = None) -> T:
        """Its output, when it is done.

        timeout: seconds; None waits as long as it takes.
        Raises TimeoutError when it is not done by then (it goes on), `svc.RemoteError`, `svc.JobTimedOut`,
        `svc.JobCancelled`.
        """
        return self._waiter(timeout)[0]()

    def cancel(self) -> str:
        """Cancels it, also while it runs. Its state afterwards: "CANCELLED", or the one it had ended with."""
        status = jobs.cancel(self._target, self.id, Patience())
        self._job = {**self._job, "status": status}
        return status

    def result(self, timeout: float | None = None) -> T:
        """`wait`, as futures call it."""
        return self.wait(timeout)

    def logs(self, tail: int = 200) -> list[str]:
        """The last lines that it printed, oldest first, with its traceback where it failed.

        tail: at most so many, up to 100000. Needs a key with the scope `read`.
        """
        return jobs.logs(self._target, self.id, tail, Patience())

    def stream(self) -> RemoteStream[Any]:
        """The chunks of a generator from the first one on, for `for` and `async for`, as long as the job is kept."""
        def chunks(patience: Patience) -> Iterator[Any]:
            return job_chunks(self._target, self.id, self._hints, patience)

        return RemoteStream(chunks, Patience())

    @property
    def output(self) -> T | None:
        """What it gave back, as last asked for by `status` or `wait`; its latest progress while it runs; None
        before."""
        found: T | None = self._job.get("output")
        return found

    @property
    def error(self) -> RemoteError | None:
        """Why it failed, as last asked for; None while it has not."""
        if self._job["status"] not in jobs.FINAL:
            return None
        return jobs.failure(self._job, self._target.name)

    async def status_aio(self) -> str:
        """`status` for asyncio code."""
        found: str = await in_thread(self.status)
        return found

    async def wait_aio(self, timeout: float | None = None) -> T:
        """`wait` for asyncio code. Cancelling it leaves the job alone."""
        work, patience = self._waiter(timeout)
        found: T = await in_thread(work, patience)
        return found

    async def result_aio(self, timeout: float | None = None) -> T:
        """`result` for asyncio code."""
        return await self.wait_aio(timeout)

    async def logs_aio(self, tail: int = 200) -> list[str]:
        """`logs` for asyncio code."""
        found: list[str] = await in_thread(lambda: self.logs(tail))
        return found

    async def cancel_aio(self) -> str:
        """`cancel` for asyncio code."""
        found: str = await in_thread(self.cancel)
        return found

    def __await__(self) -> Generator[Any, Any, T]:
        return self.wait_aio().__await__()

    def _waiter(self, timeout: float | None) -> tuple[Callable[[], T], Patience]:

        outgoing = Outgoing(None)
        patience = outgoing.patience(timeout)

        def wait() -> T:
            try:
                while self._job["status"] not in jobs.FINAL or not self._is_whole():
                    self._update(jobs.follow(self._target, self.id, patience))
                    if patience.is_over and self._job["status"] not in jobs.FINAL:
                        raise TimeOver
            except TimeOver:
                if outgoing.left_ms() == 0:
                    raise outgoing.timed_out(self.id) from None
                raise TimeoutError(f"job {self.id} is not done after {timeout} s; it goes on") from None
            output: T = jobs.outcome(self._job, self._target.name)
            return output

        return wait, patience

    def _is_whole(self) -> bool:
        """Not just the id and state that some answers have."""
        return "delayTime" in self._job

    def _update(self, answer: Any) -> str:

        self._job = jobs.read_job(answer, self._hints)
        return str(self._job["status"])

    def _repr_html_(self) -> str:
        """What a notebook shows: a table of its state as it is at that moment."""
        from svc._calling.job_table import job_table

        note = ""
        if self._job["status"] not in jobs.FINAL or not self._is_whole():
            try:
                self._update(jobs.look(self._target, self.id, Patience(monotonic() + SHOWN_JOB_MAX_S)))
            except Exception as error:
                note = f"as it was last seen: {error or type(error).__name__}"
        return job_table(self._job, self._target.name, note)

    def __repr__(self) -> str:
        return f"<Job {self.id} of {self._target.name!r}: {self._job['status']}>"
