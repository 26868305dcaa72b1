"""The `Endpoint` declaration. It turns functions into typed objects that are called like before and run on their
endpoint."""

from __future__ import annotations

from svc import declared_class, remote_function
from svc.remote_function import RemoteFunction, plain
from svc.names import suggested_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any, Callable, Literal, Mapping, ParamSpec, Protocol, Sequence, TypeVar, overload

    from svc._calling.client import EndpointClient
    from svc.family import NetworkVolume, PodTemplate, ServerlessScalerType
    from svc.gpu import GpuGroup, GpuType
    from svc.image import Image
    from svc.retries import Retries
    from svc.secret import Secret
    from svc.volume import Volume

    P = ParamSpec("P")
    R = TypeVar("R")
    F = TypeVar("F", bound=Callable[..., Any])
    C = TypeVar("C", bound=type)
    Gpu = GpuType | GpuGroup
    ScalerType = Literal["QUEUE_DELAY", "REQUEST_COUNT"] | ServerlessScalerType
    Boot = Literal["SVCBOOT", "OFF"]
    Cpu = Literal[
        "cpu3g-1-4", "cpu3g-2-8", "cpu3g-4-16", "cpu3g-8-32",
        "cpu3c-1-2", "cpu3c-2-4", "cpu3c-4-8", "cpu3c-8-16",
        "cpu5c-1-2", "cpu5c-2-4", "cpu5c-4-8", "cpu5c-8-16",
    ]  # fmt: skip

    class Mark(Protocol):
        """A decorator that keeps the function's signature."""

        def __call__(self, function: Callable[P, R], /) -> RemoteFunction[P, R]: ...

else:

    def overload(function):
        return function


PARAMETERS = (
    "name", "gpu", "cpu", "workers", "idle_timeout", "dependencies", "max_concurrency", "execution_timeout_ms",
    "scaler_type", "scaler_value", "env", "image", "volume", "volumes", "python_version", "gpu_count", "boot", "cors",
    "request_timeout_ms", "retries", "command", "port", "ready_path", "ready_timeout", "protocol", "public",
    "schedule", "timezone", "every", "schedule_input", "missed", "overlap",
    "system_dependencies", "hosts",
)  # fmt: skip

PORTED = (
    "datacenter", "flashboot", "template", "accelerate_downloads", "min_cuda_version",
)  # fmt: skip
"""Of projects of the same family: the build translates them, or says that they have no meaning."""

DECLARED: list[Endpoint] = []
"""Every endpoint of this process in order: the loader finds functions here, because names in a module may repeat."""

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "WEBSOCKET")


class Endpoint:
    """Declares a serverless endpoint.

    Queue-based, one function or class, called through `/run` and `/runsync`:

        @Endpoint(name="resize", cpu="cpu3c-2-4", dependencies=["pillow"])
        def resize(url: str, width: int = 640): ...

    Load-balanced, several HTTP routes on one URL:

        api = Endpoint(name="api", cpu="cpu3c-1-2", workers=(1, 3))

        @api.post("/analyze")
        def analyze(text: str): ...

    A server of its own, which a command starts in each worker and which answers every request:

        Endpoint(name="chat", command=["uvicorn", "app:app", "--port", "{port}"], ready_path="/health",
                 dependencies=["uvicorn"], max_concurrency=50)

    A declared function is called as it was before: from the endpoint's own code a plain call, from elsewhere a call to
    the endpoint (see `RemoteFunction`). A class stays a class: in a worker of another endpoint `Model()` is its
    endpoint's side, elsewhere an instance; `svc.remote(Model)` is its endpoint's side and `Model.local()` an instance
    everywhere. `svc.enter` and `svc.exit` mark methods of it that run when a worker begins and ends.

    `Endpoint(id="…")` declares nothing: it is an `EndpointClient`, which calls the endpoint of that id.

    Parameters (all by keyword, the name also without):
        name: identity of the endpoint, `[a-z0-9][a-z0-9_-]{0,62}`. Default for a queue-based one: that of its function
            or class, in small letters.
        gpu: `GpuType`, `GpuGroup` or a list of them in order of preference. Not together with `cpu`.
        cpu: machine type `<family>-<vCPU>-<GB>`, e.g. `"cpu5c-4-8"` for 4 vCPU and 8 GB, or any size in vCPUs and GB
            as `"16-64"` or `(16, 64)`; of a list of types the first. Without `gpu` and `cpu`: `"cpu3c-1-2"`.
        workers: `(min, max)` workers; an int n means `(0, n)`. Default `(0, 3)`.
        idle_timeout: seconds a worker stays when idle, 1 to 3600. Default 60.
        dependencies: requirements installed at build time, e.g. `["requests>=2.31"]`.
        max_concurrency: jobs or requests one worker handles at once. Default 1.
        execution_timeout_ms: milliseconds one job may run, 5000 to 7 days. Default 600000.
        scaler_type: `"QUEUE_DELAY"` or `"REQUEST_COUNT"`.
        scaler_value: seconds a job may wait (QUEUE_DELAY) or requests per worker (REQUEST_COUNT). Default 4.
        env: environment variables of its workers; a value is a text or `Secret("NAME")`.
        image: container image, by name or as an `Image`; a platform that runs workers as processes refuses it.
        volume: a folder that stays, at `/volumes/<name>`: its name or a `Volume`
            (a `NetworkVolume` stands for its name). All endpoints of the environment that
            name it share it.
        volumes: several of them, each at a path of its own: `{"/models": Volume("models", read_only=True)}`.
        python_version: `"3.12"`; default: the version that runs the build.
        gpu_count: GPUs per worker, or below 1 the part of a GPU that is its own: `0.5` for two workers to a GPU.
            Default 1.
        boot: `"SVCBOOT"` (workers are forked from an imported copy, the default) or `"OFF"`.
        cors: origins of browser pages that may call the endpoint, e.g. `["https://example.com"]`, or
            `"*"`. Default: none.
        request_timeout_ms: milliseconds a request of a load-balanced endpoint may wait for a worker, 1000 to
            3600000. Default: the platform's, 60000.
        retries: how often a job of a queue-based endpoint whose function raised is tried again: a number, or `Retries(…)`,
            which says when and after which exceptions. Default: 0.
        command: program and arguments of a server that answers all requests, started in the folder of the project.
            `{port}` becomes the port on 127.0.0.1 that it is to listen on, which is also its variable PORT. An endpoint
            with a command decorates nothing.
        port: the port that it listens on whatever it is told; default: a free one for each worker. A fixed one needs
            `workers` of at most 1 and containers.
        ready_path: path that answers with a status below 500 once it is ready; default: a connection is enough.
        ready_timeout: seconds until it must be ready, 1 to 3600. Default 300.
        protocol: `"http"` (the default): the command is a server. `"pull"`: it asks the platform for the jobs of a
            queue-based endpoint itself, as workers in images people already have do (docs/reference/pull-workers.md).
        public: True: everybody may call the routes of this load-balanced endpoint, without a key. One route alone:
            `@api.get("/path", public=True)`. Default: every call needs a key.
        schedule: calls a queue-based endpoint by itself: five fields of cron, e.g. `"0 3 * * *"` for three o'clock each day.
        timezone: where these fields are read, e.g. `"Europe/Berlin"`. Default `"UTC"`.
        every: in place of `schedule`: seconds, or a text such as `"10m"`, 1 second to 366 days, counted from midnight in UTC.
        schedule_input: arguments by name of these calls, constants that JSON has. Default: none.
        missed: what becomes of ticks that came while the platform was down: `"skip"` (the default), or `"once"`: one call
            for all of them.
        overlap: while the call of the tick before is not over, the next one is queued (`"queue"`, the default) or left out
            (`"skip"`).
        system_dependencies: Debian packages such as `["ffmpeg"]`, perhaps with a version (`"git=1:2.39.5-0+deb12u2"`). In
            containers they are built into the image; elsewhere the machine must have them, which the deploy checks.
        hosts: label of the machines that its workers may run on, or a list: any of these. `"platform"` is the platform's
            own machine. Default: every machine that joined.

    Projects of the same family also give `flashboot` (`False` is `boot="OFF"`), `template` (a `PodTemplate`, of which
    `imageName` and `env` count), and `datacenter`, `accelerate_downloads`, `min_cuda_version`: these have no
    meaning here, which the build says.

    Raises TypeError for an unknown keyword, naming the nearest one, and for `gpu` together with `cpu`.
    """

    name: str | None
    settings: dict[str, Any]
    """What was given, by keyword."""
    functions: list[Callable[..., Any]]
    """Functions and classes decorated with the endpoint itself."""
    routes: dict[tuple[str, str], Callable[..., Any]]
    """(METHOD, path) to function."""
    application: Any
    """What `.asgi(app)` was given, or None."""

    parameters = (*PARAMETERS, *PORTED)
    """What it takes by keyword."""

    if TYPE_CHECKING:

        @overload
        def __new__(
            cls,
            name: str | None = None,
            *,
            gpu: Gpu | Sequence[Gpu] | None = None,
            cpu: None = None,
            workers: tuple[int, int] | int | None = None,
            idle_timeout: int | None = None,
            dependencies: Sequence[str] | None = None,
            max_concurrency: int | None = None,
            execution_timeout_ms: int | None = None,
            scaler_type: ScalerType | None = None,
            scaler_value: int | None = None,
            env: Mapping[str, str | Secret] | None = None,
            image: str | Image | None = None,
            volume: str | Volume | NetworkVolume | Sequence[NetworkVolume] | None = None,
            volumes: Mapping[str, str | Volume] | None = None,
            python_version: str | None = None,
            gpu_count: float | None = None,
            boot: Boot | None = None,
            cors: Sequence[str] | str | None = None,
            request_timeout_ms: int | None = None,
            datacenter: str | Sequence[str] | None = None,
            flashboot: bool | None = None,
            template: PodTemplate | None = None,
            accelerate_downloads: bool | None = None,
            min_cuda_version: str | None = None,
            system_dependencies: Sequence[str] | None = None,
            retries: int | Retries | None = None,
            command: Sequence[str] | None = None,
            port: int | None = None,
            ready_path: str | None = None,
            ready_timeout: int | None = None,
            protocol: Literal["http", "pull"] | None = None,
            public: bool | None = None,
            schedule: str | None = None,
            timezone: str | None = None,
            every: str | float | None = None,
            schedule_input: Mapping[str, Any] | None = None,
            missed: Literal["skip", "once"] | None = None,
            overlap: Literal["queue", "skip"] | None = None,
            hosts: str | Sequence[str] | None = None,
        ) -> Endpoint: ...
        @overload
        def __new__(
            cls,
            name: str | None = None,
            *,
            gpu: None = None,
            cpu: Cpu | str | tuple[float, float] | Sequence[str],
            workers: tuple[int, int] | int | None = None,
            idle_timeout: int | None = None,
            dependencies: Sequence[str] | None = None,
            max_concurrency: int | None = None,
            execution_timeout_ms: int | None = None,
            scaler_type: ScalerType | None = None,
            scaler_value: int | None = None,
            env: Mapping[str, str | Secret] | None = None,
            image: str | Image | None = None,
            volume: str | Volume | NetworkVolume | Sequence[NetworkVolume] | None = None,
            volumes: Mapping[str, str | Volume] | None = None,
            python_version: str | None = None,
            gpu_count: float | None = None,
            boot: Boot | None = None,
            cors: Sequence[str] | str | None = None,
            request_timeout_ms: int | None = None,
            datacenter: str | Sequence[str] | None = None,
            flashboot: bool | None = None,
            template: PodTemplate | None = None,
            accelerate_downloads: bool | None = None,
            min_cuda_version: str | None = None,
            system_dependencies: Sequence[str] | None = None,
            retries: int | Retries | None = None,
            command: Sequence[str] | None = None,
            port: int | None = None,
            ready_path: str | None = None,
            ready_timeout: int | None = None,
            protocol: Literal["http", "pull"] | None = None,
            public: bool | None = None,
            schedule: str | None = None,
            timezone: str | None = None,
            every: str | float | None = None,
            schedule_input: Mapping[str, Any] | None = None,
            missed: Literal["skip", "once"] | None = None,
            overlap: Literal["queue", "skip"] | None = None,
            hosts: str | Sequence[str] | None = None,
        ) -> Endpoint: ...
        @overload
        def __new__(cls, *, id: str, url: str | None = None, api_key: str | None = None) -> EndpointClient: ...
        def __new__(cls, name: str | None = None, **settings: Any) -> Endpoint: ...

    else:

        def __new__(cls, name=None, *, id=None, **settings):
            if id is None or cls is not Endpoint:
                return super().__new__(cls)
            return super().__new__(remote_function.calls.EndpointClient)  # whose __init__ Python calls next

        def __init__(self, name=None, **settings):
            unknown = [key for key in settings if key not in self.parameters]
            if unknown:
                raise TypeError(_unknown_keywords(unknown))
            if name is not None and not isinstance(name, str):
                raise TypeError(f"an endpoint's name is a text, not {name!r}: write @Endpoint(name=…) above a function")
            self.name = name
            settings["name"] = name
            if settings.get("gpu") is not None and settings.get("cpu") is not None:
                raise TypeError(f"Endpoint {self.name!r}: give gpu or cpu, not both")
            self.settings = {key: settings[key] for key in PARAMETERS if settings.get(key) is not None}
            self.functions = []
            self.routes = {}
            self.application = None
            DECLARED.append(self)

    @overload
    def __call__(self, function: C, /) -> C: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> RemoteFunction[P, R]: ...
    def __call__(self, function: Any, /) -> Any:
        """Marks a function or class as what this queue-based endpoint runs. A class is returned as it is."""
        function = plain(function)
        if self.name is None:
            self.name = suggested_name(function.__name__)
        self.functions.append(function)
        if not isinstance(function, type):
            return RemoteFunction(function, self)
        declared_class.declare(function, self)
        return function

    def route(self, method: str, path: str, *, public: bool = False) -> Mark:
        """Marks a function as the handler of `method` and `path`, e.g. `"/items/{item_id}"`. With `public=True` everybody
        may call it, without a key."""
        method = method.upper()
        if method not in METHODS:
            raise ValueError(f"Endpoint {self.name!r}: {method} is not one of {', '.join(METHODS)}")
        if not isinstance(path, str) or not path.startswith("/"):
            raise ValueError(f"Endpoint {self.name!r}: a route's path starts with '/', not {path!r}")

        def mark(function: Callable[P, R], /) -> RemoteFunction[P, R]:
            self.routes[(method, path)] = plain(function)
            return RemoteFunction(plain(function), self, (method, path))

        return mark

    def get(self, path: str, *, public: bool = False) -> Mark:
        """Route `GET path`; HEAD is answered by it too."""
        return self.route("GET", path)

    def post(self, path: str, *, public: bool = False) -> Mark:
        """Route `POST path`: the function's parameters are fields of the JSON body."""
        return self.route("POST", path)

    def put(self, path: str, *, public: bool = False) -> Mark:
        """Route `PUT path`."""
        return self.route("PUT", path)

    def patch(self, path: str, *, public: bool = False) -> Mark:
        """Route `PATCH path`."""
        return self.route("PATCH", path)

    def delete(self, path: str, *, public: bool = False) -> Mark:
        """Route `DELETE path`."""
        return self.route("DELETE", path)

    def head(self, path: str, *, public: bool = False) -> Mark:
        """Route `HEAD path`."""
        return self.route("HEAD", path)

    def options(self, path: str, *, public: bool = False) -> Mark:
        """Route `OPTIONS path`; without one, OPTIONS is answered with 204 and the allowed methods."""
        return self.route("OPTIONS", path)

    def websocket(self, path: str, *, public: bool = False) -> Callable[[F], F]:
        """WebSocket route: an async function whose first parameter is the `svc.WebSocket`; the others come from path
        and query. The function is returned unchanged."""
        mark = self.route("WEBSOCKET", path)
        return lambda function: plain(mark(function))

    def url(
        self, path: str = "/", *, expires: str | float | timedelta = "1h", method: str = "GET", prefix: bool = False
    ) -> str:
        """A signed URL: who has it can make this one call of the deployed, load-balanced endpoint, without a key, until it
        expires. For browsers, WebSockets and downloads.

            link = api.url("/report.pdf?year=2026", expires="10m")

        path: below the endpoint's URL, perhaps with a query; both are part of what is signed. expires: a time such as
        `"10m"`, `"1h"`, `"7d"` (the longest), a timedelta, or seconds. method: `"WEBSOCKET"` gives a `ws` URL; HEAD may use
        one for GET. prefix: every path that begins with this one, which ends with a slash, and any query.
        It ends with the key that asks for it; one that a worker made, with its endpoint.
        Raises ValueError for another time, `svc.NotDeployed`, and `svc.PlatformError` with what the platform refuses.
        """
        signed: str = remote_function.calls.signed_url(self.name, path, expires, method, prefix)
        return signed

    def asgi(self, app: Any) -> Any:
        """Serves a whole ASGI application, e.g. a FastAPI one, below the endpoint's URL; routes of its own come first.

            api = FastAPI()
            Endpoint(name="api", dependencies=["fastapi"]).asgi(api)

        `app` may also be a function without parameters that makes the application, which suits a decorator: it runs
        on the worker only, so its imports need not be there elsewhere. Returns `app` unchanged.
        """
        if not callable(app):
            raise TypeError(f"Endpoint {self.name!r}: .asgi() takes an ASGI application, not {app!r}")
        self.application = app
        return app

    def __repr__(self) -> str:
        return f"Endpoint(name={self.name!r})"


def _unknown_keywords(unknown: Sequence[str]) -> str:
    from difflib import get_close_matches

    lines = []
    for key in unknown:
        near = get_close_matches(key, PARAMETERS, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else f"; it takes {', '.join(PARAMETERS)}"
        lines.append(f"Endpoint() has no parameter {key!r}{hint}")
    return "\n".join(lines)
