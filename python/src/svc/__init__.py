"""Turn Python functions into autoscaled HTTP endpoints.

    from svc import Endpoint

    @Endpoint(name="hello", cpu="cpu3c-1-2", workers=(0, 3))
    def hello(name: str = "world") -> dict:
        return {"message": f"Hello, {name}!"}

`hello("Ada")` is a plain call inside the endpoint, and a call to the endpoint from other endpoints and from scripts.

Standard library only: nothing here can clash with a package of yours.
"""

from __future__ import annotations

from svc.context import Cancelled, Context, context, progress
from svc.endpoint import Endpoint
from svc.function import RemoteFunction, remote
from svc.gpu import GpuGroup, GpuType
from svc.response import Response
from svc.secret import Secret
from svc.version import VERSION as __version__
from svc.websocket import SocketClosed, WebSocket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from svc.client import EndpointClient
    from svc.errors import (
        CallCycle,
        CallError,
        JobCancelled,
        JobNotFound,
        JobTimedOut,
        NotDeployed,
        NotSendable,
        PlatformError,
        RemoteError,
    )
    from svc.job import Job
    from svc.stream import RemoteStream

__all__ = [
    "CallCycle",
    "CallError",
    "Cancelled",
    "Context",
    "Endpoint",
    "EndpointClient",
    "GpuGroup",
    "GpuType",
    "Job",
    "JobCancelled",
    "JobNotFound",
    "JobTimedOut",
    "NotDeployed",
    "NotSendable",
    "PlatformError",
    "RemoteError",
    "RemoteFunction",
    "RemoteStream",
    "Response",
    "Secret",
    "SocketClosed",
    "WebSocket",
    "__version__",
    "configure",
    "context",
    "progress",
    "remote",
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


_LATE = {"EndpointClient": "svc.client", "Job": "svc.job", "RemoteStream": "svc.stream"}
_ERRORS = ("CallCycle", "CallError", "JobCancelled", "JobNotFound", "JobTimedOut", "NotDeployed", "NotSendable", "PlatformError", "RemoteError")  # fmt: skip


def __getattr__(name: str) -> object:
    """Imports what only callers need when they ask for it."""
    module = "svc.errors" if name in _ERRORS else _LATE.get(name)
    if module is None:
        raise AttributeError(f"module 'svc' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(module), name)
    return value
