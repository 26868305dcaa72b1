"""Turn Python functions into autoscaled HTTP endpoints.

    from svc import Endpoint

    @Endpoint(name="hello", cpu="cpu3c-1-2", workers=(0, 3))
    def hello(name: str = "world") -> dict:
        return {"message": f"Hello, {name}!"}

Standard library only: nothing here can clash with a package of yours.
"""

from svc.context import Cancelled, Context, context, progress
from svc.endpoint import Endpoint
from svc.gpu import GpuGroup, GpuType
from svc.response import Response
from svc.secret import Secret
from svc.version import VERSION as __version__
from svc.websocket import SocketClosed, WebSocket

__all__ = [
    "Cancelled",
    "Context",
    "Endpoint",
    "GpuGroup",
    "GpuType",
    "Response",
    "SocketClosed",
    "WebSocket",
    "Secret",
    "__version__",
    "context",
    "progress",
]
