"""Declared functions: called like the functions they are, they run where their endpoint is.

    own endpoint        a plain call
    another endpoint    one HTTP request to it; JSON on the wire
    `python script.py`  the same, to the deployed endpoint

How a call travels is not known here: `calls` is told, which svc/__init__.py puts in its place.
"""

from __future__ import annotations

from svc import this_worker
from svc.generic import Generic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import (
        Any,
        AsyncIterator,
        Callable,
        Coroutine,
        Iterable,
        Iterator,
        ParamSpec,
        Protocol,
        TypeVar,
        overload,
    )

    from svc._calling.job import Job

    P = ParamSpec("P")
    R = TypeVar("R", covariant=True)
    T = TypeVar("T")
    A = TypeVar("A")

    class Declaration(Protocol):
        """What a function knows of its `Endpoint`, which knows its functions."""

        name: str | None
        settings: dict[str, Any]

else:
    P = R = None

    def overload(function):
        return function


calls: Any = None
"""Has what `_calling/` does for declarations: dispatch.py, mapping.py, proxy.py and client.py."""


class RemoteFunction(Generic[P, R]):
    """A function declared with an `Endpoint`.

    `fn(...)` keeps the function's signature and result. An `async def` is awaited as ever. A plain `def` gives its
    result, or, where an event loop runs in this thread, an awaitable of it: waiting there would hold up everything
    else on that loop.
    A generator function gives an iterator of its chunks (`for` and `async for`).

    Raises TypeError for arguments that do not fit, before anything is sent; `svc.RemoteError` for what the function
    raised, with its traceback; `svc.JobTimedOut`, `svc.JobCancelled`, `svc.NotDeployed`, `svc.CallCycle`,
    `svc.NotSendable`, `svc.PlatformError`, all of them `svc.CallError`.
    """

    if TYPE_CHECKING:
        __wrapped__: Callable[P, R]
        __name__: str
        __qualname__: str
        endpoint: Declaration
        """The declaration."""
        route: tuple[str, str] | None
        """(METHOD, path) of a load-balanced endpoint's route; None for a queue-based endpoint."""
        method: str
        """Which method of a class endpoint; "" for a function."""
    else:

        @property
        def __annotations__(self):
            return self.__wrapped__.__annotations__

    def __init__(
        self,
        function: Callable[P, R],
        endpoint: Declaration,
        route: tuple[str, str] | None = None,
        method: str = "",
    ) -> None:
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            try:
                setattr(self, name, getattr(function, name))
            except AttributeError:
                pass
        self.__dict__.update(getattr(function, "__dict__", {}))
        self.__wrapped__ = function
        self.endpoint = endpoint
        self.route = route
        self.method = method

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function where its endpoint is."""
        if self.is_here():
            return self.__wrapped__(*args, **kwargs)
        result: R = calls.call(self, args, kwargs)
        return result

    def local(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the function here, in this process."""
        return self.__wrapped__(*args, **kwargs)

    @overload
    def aio(
        self: RemoteFunction[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def aio(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]: ...
    def aio(self, *args: Any, **kwargs: Any) -> Any:
        """The call as a coroutine, whatever kind of function it is: `await fn.aio(...)`."""
        return calls.call_async(self, args, kwargs)

    @overload
    def spawn(self: RemoteFunction[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> Job[T]: ...
    @overload
    def spawn(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    def spawn(self, *args: Any, **kwargs: Any) -> Any:
        """Hands the call in and returns its `Job` at once. Queue-based endpoints only."""
        return calls.spawn(self, args, kwargs)

    @overload
    def spawn_aio(
        self: RemoteFunction[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, Job[T]]: ...
    @overload
    def spawn_aio(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Job[R]]: ...
    def spawn_aio(self, *args: Any, **kwargs: Any) -> Any:
        """`spawn` as a coroutine."""
        return calls.spawn_async(self, args, kwargs)

    @overload
    def map(  # type: ignore[misc]
        self: Callable[[A], Coroutine[Any, Any, T]],
        items: Iterable[A],
        *,
        concurrency: int = 32,
        ordered: bool = True,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> Iterator[T]: ...
    @overload
    def map(
        self: Callable[[A], T],
        items: Iterable[A],
        *,
        concurrency: int = 32,
        ordered: bool = True,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> Iterator[T]: ...
    def map(
        self,
        items: Any,
        *,
        concurrency: int = 32,
        ordered: bool = True,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> Any:
        """Calls the function with each item as its first argument; an iterator of the results.

        concurrency: calls on their way at once, 1 to 512. Items are taken as they are needed: at most eight times as many
            as that are taken and not handed on, so there may be any number of them.
        ordered: results come in the items' order; False gives each as soon as it is there.
        return_exceptions: a failed call gives its exception as its result. Otherwise it is raised where its result would
            be.
        progress: how many are done, how many failed and how long the rest takes, in one line on standard error that moves
            on a terminal and in a notebook; elsewhere it is written once, at the end.

        Leaving the loop early, an exception and Ctrl+C stop taking items and cancel the calls still on their way.
        """
        shown = calls.Progress(self.__name__, items) if progress else None
        return calls.map_items(self, ((item,) for item in items), concurrency, return_exceptions, ordered, shown)

    @overload
    def starmap(
        self: RemoteFunction[P, Coroutine[Any, Any, T]],
        items: Iterable[Iterable[Any]],
        *,
        concurrency: int = 32,
        ordered: bool = True,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> Iterator[T]: ...
    @overload
    def starmap(
        self,
        items: Iterable[Iterable[Any]],
        *,
        concurrency: int = 32,
        ordered: bool = True,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> Iterator[R]: ...
    def starmap(
        self,
        items: Any,
        *,
        concurrency: int = 32,
        ordered: bool = True,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> Any:
        """`map` for functions of several arguments: each item is a tuple of them."""
        shown = calls.Progress(self.__name__, items) if progress else None
        tuples = (tuple(item) for item in items)
        return calls.map_items(self, tuples, concurrency, return_exceptions, ordered, shown)

    @overload
    def map_aio(  # type: ignore[misc]
        self: Callable[[A], Coroutine[Any, Any, T]],
        items: Iterable[A],
        *,
        concurrency: int = 32,
        ordered: bool = True,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> AsyncIterator[T]: ...
    @overload
    def map_aio(
        self: Callable[[A], T],
        items: Iterable[A],
        *,
        concurrency: int = 32,
        ordered: bool = True,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> AsyncIterator[T]: ...
    def map_aio(
        self,
        items: Any,
        *,
        concurrency: int = 32,
        ordered: bool = True,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> Any:
        """`map` for `async for`."""
        shown = calls.Progress(self.__name__, items) if progress else None
        return calls.map_items_async(self, ((item,) for item in items), concurrency, return_exceptions, ordered, shown)

    @overload
    def starmap_aio(
        self: RemoteFunction[P, Coroutine[Any, Any, T]],
        items: Iterable[Iterable[Any]],
        *,
        concurrency: int = 32,
        ordered: bool = True,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> AsyncIterator[T]: ...
    @overload
    def starmap_aio(
        self,
        items: Iterable[Iterable[Any]],
        *,
        concurrency: int = 32,
        ordered: bool = True,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> AsyncIterator[R]: ...
    def starmap_aio(
        self,
        items: Any,
        *,
        concurrency: int = 32,
        ordered: bool = True,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> Any:
        """`starmap` for `async for`."""
        shown = calls.Progress(self.__name__, items) if progress else None
        tuples = (tuple(item) for item in items)
        return calls.map_items_async(self, tuples, concurrency, return_exceptions, ordered, shown)

    def is_here(self) -> bool:
        """Whether a call stays in this process: it is a worker of the function's endpoint."""
        return this_worker.is_own(self.endpoint.name)

    def __repr__(self) -> str:
        where = " ".join(self.route) if self.route else "queue-based"
        return f"<function {self.__qualname__} of endpoint {self.endpoint.name!r} ({where})>"

    def __reduce__(self) -> str:
        return self.__qualname__  # pickled and copied by name, like a function

    def __getattr__(self, name: str) -> Any:
        """What functions have besides (`__code__`, `__defaults__`, …), and the marks of a coroutine function."""
        if name == "__wrapped__":
            raise AttributeError(name)
        if name in _COROUTINE_MARKS:
            return _coroutine_mark(self.__wrapped__, name)
        return getattr(self.__wrapped__, name)


_COROUTINE_MARKS = ("_is_coroutine", "_is_coroutine_marker")


def _coroutine_mark(function: Any, name: str) -> Any:
    """What asyncio.iscoroutinefunction and inspect.iscoroutinefunction look for."""
    import asyncio.coroutines
    import inspect

    if not inspect.iscoroutinefunction(function):
        raise AttributeError(name)
    found = getattr(asyncio.coroutines, "_is_coroutine", None) if name == "_is_coroutine" else None
    if found is None:
        found = getattr(inspect, "_is_coroutine_mark", None)
    if found is None:
        raise AttributeError(name)
    return found


def plain(function: Any) -> Any:
    """The function itself, behind one or several declarations."""
    while isinstance(function, RemoteFunction):
        function = function.__wrapped__
    return function


@overload
def remote(target: type[T], /) -> T: ...  # type: ignore[overload-overlap]
@overload
def remote(target: Callable[P, R], /) -> RemoteFunction[P, R]: ...
def remote(target: Any, /) -> Any:
    """The endpoint's side of a declared class: an object with its public methods, which run on the endpoint's workers.

        @Endpoint(name="model", gpu=GpuGroup.ANY)
        class Model:
            def predict(self, text: str) -> float: ...

        score = remote(Model).predict("hello")

    Every worker has one instance of its own, made without arguments, so calls share no state.
    For a method of it, `remote(remote(Model).predict)` is the same object typed as `RemoteFunction`, with `aio`,
    `map` and `spawn`.
    Raises TypeError for a class that no `Endpoint` declares.
    """
    if isinstance(target, RemoteFunction):
        return target
    return calls.proxy_of(target)
