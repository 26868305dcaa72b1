"""What can go wrong when one endpoint calls another, or a script calls an endpoint."""

from __future__ import annotations


class CallError(Exception):
    """Base of everything that a call to an endpoint raises, wrong arguments (TypeError) aside."""

    endpoint: str
    """Name of the endpoint that was called, or its id where only that is known; "" when neither is."""

    def __init__(self, message: str, *, endpoint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.endpoint = endpoint

    @property
    def short_message(self) -> str:
        """One line, for the failure of a job that this error ends."""
        return self.message


class RemoteError(CallError):
    """The function ran and raised, or its job failed. `str()` shows the remote traceback too.

    error_type: the exception's class by name, e.g. "ValueError"; "" when the function returned `{"error": text}`.
    error_message: its text.
    error_traceback: the remote traceback as Python prints it; "" where there is none.
    job_id: id of the job; "" for a request to a load-balanced endpoint.
    status: HTTP status of a load-balanced endpoint's answer; 0 for a job.
    """

    def __init__(
        self,
        error_message: str,
        *,
        error_type: str = "",
        error_traceback: str = "",
        job_id: str = "",
        endpoint: str = "",
        status: int = 0,
    ) -> None:
        named = error_type in ("", error_message) or error_message.startswith(f"{error_type}:")
        super().__init__(error_message if named else f"{error_type}: {error_message}", endpoint=endpoint)
        self.error_type = error_type
        self.error_message = error_message
        self.error_traceback = error_traceback
        self.job_id = job_id
        self.status = status

    @property
    def short_message(self) -> str:
        """One line: which endpoint failed, and how."""
        where = f"endpoint {self.endpoint!r} failed: " if self.endpoint else ""
        return where + self.message

    def __str__(self) -> str:
        if not self.error_traceback:
            return self.short_message
        job = f", job {self.job_id}" if self.job_id else ""
        return f"{self.short_message}\n\nRemote traceback (endpoint {self.endpoint!r}{job}):\n{self.error_traceback.rstrip()}"


class JobTimedOut(RemoteError):
    """The job ran into its execution time-out, or the caller's own deadline passed before it was done."""


class JobCancelled(RemoteError):
    """The job was cancelled."""


class JobNotFound(CallError):
    """The platform does not know the job any more: results are kept for a while only."""


class NotDeployed(CallError):
    """No endpoint of that name is in the environment; the message says what to run."""


class CallCycle(CallError):
    """The call would come back to an endpoint that already waits for it: a → b → a."""


class DeployFailed(Exception):
    """`svc.deploy` deployed nothing, or what it deployed does not run; the message says why and what to do."""


class NotSendable(CallError, TypeError):
    """An argument or a result holds a value that cannot be sent; the message names the place inside the value."""


class PlatformError(CallError):
    """The platform refused a call or cannot be reached.

    status: HTTP status, 0 when there was no answer. code: the platform's error code, e.g. "WRONG_KEY"; "" without one.
    """

    def __init__(self, message: str, *, status: int = 0, code: str = "", endpoint: str = "") -> None:
        super().__init__(message, endpoint=endpoint)
        self.status = status
        self.code = code


for _error in (
    CallError, RemoteError, JobTimedOut, JobCancelled, JobNotFound, NotDeployed, CallCycle, NotSendable, PlatformError,
    DeployFailed,
):  # fmt: skip
    _error.__module__ = "svc"  # as it is imported, also in failures


def call_cycle(hops: tuple[str, ...], name: str) -> CallCycle:
    """The error for a call that comes back to `name`."""
    chain = " → ".join((*hops, name))
    return CallCycle(
        f"endpoints call each other in a circle: {chain}. Each would wait for the next one for ever.", endpoint=name
    )
