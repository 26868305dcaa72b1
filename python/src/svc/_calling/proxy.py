"""The stand-in for a declared class: its public methods, which run where the endpoint is."""

from __future__ import annotations

from svc import declared_class, this_worker
from svc.endpoint import DECLARED, Endpoint
from svc.remote_function import RemoteFunction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class RemoteMethod(RemoteFunction[..., "Any"]):
    """A method of a declared class."""

    def local(self, *args: Any, **kwargs: Any) -> Any:
        """Not possible: here is no instance."""
        raise TypeError(f"{self.__qualname__} needs an instance to run here: make one with .local() of the class")

    def __reduce__(self) -> Any:
        raise TypeError(f"{self.__qualname__} of an endpoint cannot be pickled: pickle the class")


class Proxy:
    """Has the public methods of one class and nothing else."""

    def __init__(self, cls: type, endpoint: Endpoint) -> None:
        self._class = cls
        self._endpoint = endpoint

    def __getattr__(self, name: str) -> Any:
        cls: type = self.__dict__["_class"]
        if not declared_class.is_method(cls, name):
            raise AttributeError(f"{cls.__qualname__} has no public method {name!r} to call on its endpoint")
        return self._method(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not any("__call__" in vars(base) for base in self._class.__mro__):
            raise TypeError(f"{self._class.__qualname__} has no method __call__")
        return self._method("__call__")(*args, **kwargs)

    def _method(self, name: str) -> Any:
        here = this_worker.WORKER
        if here is not None and this_worker.is_own(self._endpoint.name) and self._class in here.instances:
            return getattr(here.instances[self._class], name)
        return RemoteMethod(getattr(self._class, name), self._endpoint, None, name)

    def __repr__(self) -> str:
        return f"<{self._class.__qualname__} on endpoint {self._endpoint.name!r}>"


def proxy_of(target: Any) -> Proxy:
    """Raises TypeError for a class that no Endpoint declares."""
    for endpoint in reversed(DECLARED):
        if isinstance(target, type) and target in endpoint.functions:
            return Proxy(target, endpoint)
    raise TypeError(f"{target!r} is no class that an Endpoint declares")
