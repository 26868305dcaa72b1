"""A client for any deployed endpoint: `Endpoint(id="…")`, or by name `EndpointClient(name="…")`."""

from __future__ import annotations

from svc._calling import requests
from svc._calling.connections import Patience
from svc._calling.job import Job
from svc._calling.signed_url import of_target
from svc._calling.threads import in_thread
from svc.endpoint import Endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any, Callable, Coroutine, Mapping, NoReturn

    from svc._calling.discovery import Target
    from svc._calling.stream import RemoteStream


class EndpointClient(Endpoint):
    """Calls an endpoint that this code does not declare. `Endpoint(id="…")` makes one.

    id: the endpoint's id; name: its name, looked up in `app` and `environment` (default: those of `svc.configure`, in
    a worker its own).
    url, api_key: another platform than the configured one.

    Queue-based endpoints: `run`, `runsync`, `status`, `cancel`, `stream`, `health`. Load-balanced ones: `get`,
    `post`, `put`, `patch`, `delete`. Every method has an asyncio form ending in `_aio`. Arguments and results keep
    their Python types.
    """

    def __init__(
        self,
        *,
        id: str | None = None,
        name: str | None = None,
        app: str | None = None,
        environment: str | None = None,
        url: str | None = None,
        api_key: str | None = None,
    ) -> None:
        if (id is None) == (name is None):
            raise TypeError("EndpointClient takes an id or a name")
        if id is not None and (app or environment):
            raise TypeError("EndpointClient: app and environment belong to a name; an id says it all")
        self.id = id
        self.name = name
        self.settings = {}
        self.functions = []
        self.routes = {}
        self.application = None
        self._app = app
        self._environment = environment
        self._url = url
        self._key = api_key

    def run(
        self,
        input: Mapping[str, Any] | None = None,
        *,
        method: str = "",
        webhook: str = "",
        execution_timeout_ms: int | None = None,
        ttl_ms: int | None = None,
        low_priority: bool = False,
        idempotency_key: str | None = None,
    ) -> Job[Any]:
        """Hands a job in; its `Job` at once. `input` holds the function's arguments by name.

        method: which method of a class. webhook: URL that gets the final job. execution_timeout_ms: how long it may
        run, 5000 to 7 days.
        ttl_ms: how long it is kept, from now. low_priority: waits behind the others and starts no worker.
        idempotency_key: the first job handed in with it is the one returned.
        """
        policy = {"executionTimeout": execution_timeout_ms, "ttl": ttl_ms, "lowPriority": low_priority}
        submission = self._submission(input, idempotency_key, method=method, webhook=webhook, policy=policy)
        job = submission.start(Patience())
        return Job(submission.target, job)

    def runsync(self, input: Mapping[str, Any] | None = None, *, method: str = "", timeout: float | None = None) -> Any:
        """Runs a job and waits for its output. Who stops waiting cancels it.

        timeout: seconds until TimeoutError; None waits as long as it takes. Raises `svc.RemoteError`,
        `svc.JobTimedOut`, `svc.JobCancelled`.
        """
        return self._runner(input, method, timeout)[0]()

    def job(self, job_id: str) -> Job[Any]:
        """A job that was handed in earlier or elsewhere, by its id. Nothing is asked yet."""
        return Job(self._target(Patience(), True), {"id": job_id, "status": ""})

    def status(self, job_id: str) -> str:
        """The job's state."""
        return self.job(job_id).status()

    def cancel(self, job_id: str) -> str:
        """Cancels the job; its state afterwards."""
        return self.job(job_id).cancel()

    def stream(self, job_id: str) -> RemoteStream[Any]:
        """The chunks of a generator's job."""
        return self.job(job_id).stream()

    def health(self) -> dict[str, Any]:
        """Counts of the endpoint's jobs by state and workers by what they do: docs/reference/job-api.md."""
        found: dict[str, Any] = requests.health(self._target)
        return found

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """One request to a route of a load-balanced endpoint; the answer's JSON, text or bytes.

        body: bytes as they are, anything else as JSON. params: the query. timeout: seconds until TimeoutError.
        Raises `svc.RemoteError` for an answer of status 400 and above, with its `status`.
        """
        return requests.sender(self._target, method, path, body, params, headers, timeout)[0]()

    def get(  # type: ignore[override]
        self,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """`GET path`; see `request`."""
        return self.request("GET", path, params=params, headers=headers, timeout=timeout)

    def post(  # type: ignore[override]
        self,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """`POST path` with a body; see `request`."""
        return self.request("POST", path, body, params=params, headers=headers, timeout=timeout)

    def put(  # type: ignore[override]
        self,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """`PUT path` with a body; see `request`."""
        return self.request("PUT", path, body, params=params, headers=headers, timeout=timeout)

    def patch(  # type: ignore[override]
        self,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """`PATCH path` with a body; see `request`."""
        return self.request("PATCH", path, body, params=params, headers=headers, timeout=timeout)

    def delete(  # type: ignore[override]
        self,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """`DELETE path`; see `request`."""
        return self.request("DELETE", path, params=params, headers=headers, timeout=timeout)

    async def run_aio(self, input: Mapping[str, Any] | None = None, **options: Any) -> Job[Any]:
        """`run` for asyncio code, with the same options."""
        found: Job[Any] = await in_thread(lambda: self.run(input, **options))
        return found

    async def runsync_aio(
        self, input: Mapping[str, Any] | None = None, *, method: str = "", timeout: float | None = None
    ) -> Any:
        """`runsync` for asyncio code. Cancelling it cancels the job."""
        work, patience = self._runner(input, method, timeout)
        return await in_thread(work, patience)

    def status_aio(self, job_id: str) -> Coroutine[Any, Any, str]:
        """`status` for asyncio code."""
        return in_thread(lambda: self.status(job_id))

    def cancel_aio(self, job_id: str) -> Coroutine[Any, Any, str]:
        """`cancel` for asyncio code."""
        return in_thread(lambda: self.cancel(job_id))

    def health_aio(self) -> Coroutine[Any, Any, dict[str, Any]]:
        """`health` for asyncio code."""
        return in_thread(self.health)

    async def request_aio(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """`request` for asyncio code."""
        work, patience = requests.sender(self._target, method, path, body, params, headers, timeout)
        return await in_thread(work, patience)

    def get_aio(self, path: str, **options: Any) -> Coroutine[Any, Any, Any]:
        """`get` for asyncio code, with the same options."""
        return self.request_aio("GET", path, **options)

    def post_aio(self, path: str, body: Any = None, **options: Any) -> Coroutine[Any, Any, Any]:
        """`post` for asyncio code, with the same options."""
        return self.request_aio("POST", path, body, **options)

    def put_aio(self, path: str, body: Any = None, **options: Any) -> Coroutine[Any, Any, Any]:
        """`put` for asyncio code, with the same options."""
        return self.request_aio("PUT", path, body, **options)

    def patch_aio(self, path: str, body: Any = None, **options: Any) -> Coroutine[Any, Any, Any]:
        """`patch` for asyncio code, with the same options."""
        return self.request_aio("PATCH", path, body, **options)

    def delete_aio(self, path: str, **options: Any) -> Coroutine[Any, Any, Any]:
        """`delete` for asyncio code, with the same options."""
        return self.request_aio("DELETE", path, **options)

    def __call__(self, function: Any, /) -> NoReturn:
        """Not possible: a client declares nothing."""
        raise TypeError(f"{self!r} calls an endpoint and declares none: declare with Endpoint(name=…)")

    def url(
        self, path: str = "/", *, expires: str | float | timedelta = "1h", method: str = "GET", prefix: bool = False
    ) -> str:
        """A signed URL of this load-balanced endpoint: see `Endpoint.url`."""
        return of_target(self._target(Patience(), False), path, expires, method, prefix)

    def route(self, method: str, path: str, *, public: bool = False) -> NoReturn:
        """Not possible: a client declares nothing."""
        self(None)

    def asgi(self, app: Any) -> NoReturn:
        """Not possible: a client declares nothing."""
        self(None)

    def __repr__(self) -> str:
        return f"Endpoint(id={self.id!r})" if self.id else f"EndpointClient(name={self.name!r})"

    def target(self, patience: Patience) -> Target:
        """Where it is, for one that was made with a name. Raises NotDeployed, PlatformError."""
        return self._target(patience, True)

    @property
    def is_peer(self) -> bool:
        """Whether a worker's own token reaches it: it is in the worker's own environment."""
        return requests.is_peer(self._app, self._environment, self._url, self._key)

    def _target(self, patience: Patience, is_queue: bool) -> Target:
        return requests.target(
            self.id, self.name, self._app, self._environment, self._url, self._key, is_queue, patience
        )

    def _submission(self, input: Mapping[str, Any] | None, key: str | None, **body: Any) -> Any:
        return requests.submission(lambda patience: self._target(patience, True), input, key, **body)

    def _runner(
        self, input: Mapping[str, Any] | None, method: str, timeout: float | None
    ) -> tuple[Callable[[], Any], Patience]:
        return requests.runner(self.name, lambda patience: self._target(patience, True), input, method, timeout)
