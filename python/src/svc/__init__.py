"""Turn Python functions into autoscaled HTTP endpoints.

    from svc import Endpoint

    @Endpoint(name="hello", cpu="cpu3c-1-2", workers=(0, 3))
    def hello(name: str = "world") -> dict:
        return {"message": f"Hello, {name}!"}

`hello("Ada")` is a plain call inside the endpoint, and a call to the endpoint from other endpoints and from scripts.

Standard library only: nothing here can clash with a package of yours.
"""

from __future__ import annotations

from svc import remote_function
from svc.batching import batched
from svc.context import Cancelled, Context, context, progress
from svc.endpoint import Endpoint
from svc.family import CpuInstanceType, CudaVersion, DataCenter, NetworkVolume, PodTemplate, ServerlessScalerType
from svc.gpu import GpuGroup, GpuType
from svc.image import Image
from svc.lifecycle import enter, exit
from svc.options import option, with_options
from svc.remote_function import RemoteFunction, remote
from svc.response import Response
from svc.retries import Retries
from svc.secret import Secret
from svc.version import VERSION as __version__
from svc.volume import Volume
from svc.websocket import SocketClosed, WebSocket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from svc._calling.client import EndpointClient
    from svc._calling.deployed import DeployedFunction
    from svc._calling.job import Job
    from svc._calling.stream import RemoteStream
    from svc.errors import (
        CallCycle,
        CallError,
        DeployFailed,
        JobCancelled,
        JobNotFound,
        JobTimedOut,
        NotDeployed,
        NotSendable,
        PlatformError,
        RemoteError,
    )

__all__ = [
    "CallCycle",
    "CallError",
    "Cancelled",
    "Context",
    "CpuInstanceType",
    "CudaVersion",
    "DataCenter",
    "DeployFailed",
    "DeployedFunction",
    "Endpoint",
    "EndpointClient",
    "GpuGroup",
    "GpuType",
    "Image",
    "Job",
    "JobCancelled",
    "JobNotFound",
    "JobTimedOut",
    "NetworkVolume",
    "NotDeployed",
    "NotSendable",
    "PlatformError",
    "PodTemplate",
    "RemoteError",
    "RemoteFunction",
    "RemoteStream",
    "Response",
    "Retries",
    "Secret",
    "ServerlessScalerType",
    "SocketClosed",
    "Volume",
    "WebSocket",
    "__version__",
    "batched",
    "configure",
    "context",
    "deploy",
    "enter",
    "exit",
    "function",
    "job",
    "job_aio",
    "option",
    "progress",
    "remote",
    "with_options",
]


def configure(
    *,
    app: str | None = None,
    environment: str | None = None,
    url: str | None = None,
    api_key: str | None = None,
) -> None:
    """Says where calls of this script go, before everything else that says so; what is not given, or None, is found
    again as usual.

    app: default SVC_APP, else the current directory's as `svc deploy` detects it. environment: default SVC_ENV, else
    "production".
    url: the platform's address, default PLATFORM_URL, else that of `svc login`, else the embedded platform that runs.
    api_key: default PLATFORM_API_KEY, else the key stored for that platform. Each variable also counts when it stands
    in the current directory's .env.
    A worker's functions call their own environment, whatever is set here.
    """
    from svc._calling.settings import configure

    configure({"app": app, "environment": environment, "url": url, "api_key": api_key})


def deploy(*declared: Callable[..., Any] | Endpoint) -> None:
    """Deploys what cells of a notebook declare, shows how that goes, and returns when the endpoints take calls.

        svc.deploy(double)

    declared: functions, classes, or the endpoints of routes. Each one's cell is deployed, down to its call of
        `svc.deploy`, with the imports of other cells that it uses, as a file in `.svc/notebook/`.
    The endpoints go to the app and environment that calls go to (see `svc.configure`); others that are there stay, and
    what has not changed is left as it is. Needs the `svc` command: on the PATH, or SVC_COMMAND.
    Raises `svc.DeployFailed` with everything that stands in the way, in lines of the cells; `svc.PlatformError` without a
    platform or key; TypeError for what no endpoint declares.
    """
    from svc._notebook.deploy import deploy

    deploy(declared)


def function(
    name: str, *, method: str = "", route: str = "", url: str | None = None, api_key: str | None = None
) -> DeployedFunction:
    """A deployed function by its endpoint's name, without its source.

        resize = svc.function("shop/production/resize")
        resize("cat.png", width=640)

    name: `app/environment/endpoint`, or the endpoint alone: in the worker's own environment, elsewhere in that of
        `svc.configure`. method: of a class with several. route: of a load-balanced endpoint with several, e.g.
        `"POST /analyze"`. url, api_key: another platform than the configured one.

    Nothing is asked until it is called. Raises ValueError for what names no endpoint.
    """
    from svc._calling.deployed import DeployedFunction

    return DeployedFunction(name, method, route, url, api_key)


def job(job_id: str, *, endpoint: str | None = None, url: str | None = None, api_key: str | None = None) -> Job[Any]:
    """A job that was handed in earlier or elsewhere, as it is now.

    endpoint: its endpoint as `svc.function` names it; without, every queue-based endpoint that the key reaches is asked,
        which a worker's own token cannot. Raises `svc.JobNotFound`, `svc.NotDeployed`, `svc.PlatformError`.
    """
    from svc._calling.found_job import find_job

    return find_job(job_id, endpoint, url, api_key)


async def job_aio(
    job_id: str, *, endpoint: str | None = None, url: str | None = None, api_key: str | None = None
) -> Job[Any]:
    """`job` for asyncio code."""
    from svc._calling.threads import in_thread

    found: Job[Any] = await in_thread(lambda: job(job_id, endpoint=endpoint, url=url, api_key=api_key))
    return found


_LATE = {
    **dict.fromkeys(("CallCycle", "CallError", "JobCancelled", "JobNotFound", "JobTimedOut"), "errors"),
    "DeployFailed": "errors",
    **dict.fromkeys(("NotDeployed", "NotSendable", "PlatformError", "RemoteError"), "errors"),
    "DeployedFunction": "_calling.deployed",
    "EndpointClient": "_calling.client",
    "Job": "_calling.job",
    "RemoteStream": "_calling.stream",
}
_CALLS = {
    **dict.fromkeys(("call", "call_async", "spawn", "spawn_async"), "_calling.dispatch"),
    **dict.fromkeys(("map_items", "map_items_async"), "_calling.mapping"),
    "EndpointClient": "_calling.client",
    "Progress": "_calling.progress",
    "proxy_of": "_calling.proxy",
    "signed_url": "_calling.signed_url",
}


def __getattr__(name: str) -> object:
    """Imports what only callers need when they ask for it."""
    if name not in _LATE:
        raise AttributeError(f"module 'svc' has no attribute {name!r}")
    value = globals()[name] = _late(_LATE[name], name)
    return value


def _late(module: str, name: str) -> Any:
    from importlib import import_module

    return getattr(import_module(f"svc.{module}"), name)


class _Calls:
    """How calls travel, for declarations; imported with the first call."""

    def __getattr__(self, name: str) -> Any:
        if name not in _CALLS:
            raise AttributeError(name)
        value = self.__dict__[name] = _late(_CALLS[name], name)
        return value


remote_function.calls = _Calls()
