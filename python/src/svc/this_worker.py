"""Which worker this process is, for calls that its functions make to other endpoints."""

from __future__ import annotations

from svc.context import Context, context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ThisWorker:
    """Who it is, where its platform is, and what it runs now."""

    __slots__ = ("app", "endpoint", "environment", "instances", "left", "running", "token", "url")

    def __init__(self, start: dict[str, Any], declared: str, instances: dict[type, object]) -> None:
        where = start["endpoint"]
        self.url: str = start.get("platformUrl") or ""
        """Base URL of the platform's HTTP side; "" from a platform that does not tell."""
        self.left: set[str] = set()
        """Where the platform was before."""
        self.token: str = start["token"]
        self.app: str = where.get("app", "")
        self.environment: str = where.get("environment", "")
        self.endpoint = declared
        """The endpoint's name as its declaration has it; under `svc run` the platform knows it by a longer one."""
        self.running: dict[str, Any] = {}
        """Work by channel, that of the worker."""
        self.instances = instances
        """The worker's instance of each class it serves."""

    def welcomed(self, head: dict[str, Any]) -> None:
        """A platform that was started again may be at another address."""
        url = head.get("platformUrl") or self.url
        if url != self.url:
            self.left = (self.left | {self.url}) - {"", url}
            self.url = url

    def context(self) -> Context:
        """The job or request that the calling code belongs to; a thread of its own belongs to the only one that
        runs."""
        now = context()
        if not now.worker_id and len(self.running) == 1:
            for work in list(self.running.values()):
                return work.context or now
        return now


WORKER: ThisWorker | None = None
LOADING = ""
"""Name of the endpoint whose code is being imported in a worker or zygote."""


def enter(start: dict[str, Any], declared: str, instances: dict[type, object]) -> ThisWorker:
    """From now on this process is that worker."""
    global WORKER, LOADING
    WORKER = ThisWorker(start, declared, instances)
    LOADING = ""
    return WORKER


def loading(endpoint: str) -> None:
    """The endpoint's code is imported now: calls would be made once per copy of the worker, so none is possible."""
    global LOADING
    LOADING = endpoint


def moved(address: str) -> str:
    """`address` where the platform is now, if it was there when the address was learnt."""
    if WORKER is not None:
        for left in WORKER.left:
            if address.startswith(left):
                return WORKER.url + address[len(left) :]
    return address


def is_elsewhere(endpoint: str | None) -> bool:
    """Whether this is a worker of another endpoint, or will be one: its code is imported."""
    return LOADING != endpoint if LOADING else WORKER is not None and WORKER.endpoint != endpoint


def is_own(endpoint: str | None) -> bool:
    """Whether a call to this endpoint stays in this process."""
    return WORKER is not None and WORKER.endpoint == endpoint
