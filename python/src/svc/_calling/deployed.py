"""Deployed functions by their names: what a declared function can, without its source.

The platform's record of the build says what parameters it has, so that arguments are checked here as those of declared ones are.
"""

from __future__ import annotations

from difflib import get_close_matches
from inspect import Parameter, Signature
from time import monotonic

from svc._calling import discovery, dispatch, mapping
from svc._calling.client import EndpointClient
from svc._calling.connections import Patience
from svc._calling.limits import PEER_CACHE_S
from svc._calling.progress import Progress
from svc._calling.threads import in_thread, runs_in_loop
from svc.errors import CallError
from svc.remote_function import RemoteFunction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, AsyncIterator, Iterable, Iterator

    from svc._calling.job import Job
    from svc._calling.stream import RemoteStream


class DeployedFunction:
    """A function of a deployed endpoint, found by name with `svc.function`.

    Nothing is asked until the first call; then its endpoint and parameters are looked up, and kept for 300 s. Calls are as
    those of a declared function (`RemoteFunction`): arguments by position or name, results with their Python types.

    Raises besides: `svc.NotDeployed` where there is no such endpoint, with the names that come near; `svc.PlatformError` without
    a key for the platform; `svc.CallError` for a method or route that it does not have.
    """

    def __init__(self, name: str, method: str, route: str, url: str | None, api_key: str | None) -> None:
        self.name = name
        """As it was given."""
        self._method = method
        self._route = route
        self._client = client_of(name, url, api_key)
        self._found: tuple[float, _Known] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Its result, or where an event loop runs in this thread an awaitable of it; of a generator an iterator of its
        chunks."""
        if runs_in_loop():
            return self.aio(*args, **kwargs)
        return dispatch.call(self._known(), args, kwargs)

    async def aio(self, *args: Any, **kwargs: Any) -> Any:
        """The call for asyncio code."""
        known = await in_thread(self._known)
        return await dispatch.call_async(known, args, kwargs)

    def spawn(self, *args: Any, **kwargs: Any) -> Job[Any]:
        """Hands the call in and returns its `Job` at once. Queue-based endpoints only."""
        return dispatch.spawn(self._known(), args, kwargs)

    async def spawn_aio(self, *args: Any, **kwargs: Any) -> Job[Any]:
        """`spawn` for asyncio code."""
        known = await in_thread(self._known)
        job: Job[Any] = await dispatch.spawn_async(known, args, kwargs)
        return job

    def stream(self, *args: Any, **kwargs: Any) -> RemoteStream[Any]:
        """The chunks of a generator as it yields them. Raises TypeError for a function that is none."""
        return dispatch.stream(self._known(), args, kwargs)

    async def stream_aio(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """`stream` for `async for`."""
        known = await in_thread(self._known)
        async with dispatch.stream(known, args, kwargs) as chunks:
            async for chunk in chunks:
                yield chunk

    def map(
        self,
        items: Iterable[Any],
        *,
        concurrency: int = 32,
        ordered: bool = True,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> Iterator[Any]:
        """See `RemoteFunction.map`."""
        singles = ((item,) for item in items)
        return mapping.map_items(self._known(), singles, concurrency, return_exceptions, ordered, self._shown(items, progress))

    def starmap(
        self,
        items: Iterable[Iterable[Any]],
        *,
        concurrency: int = 32,
        ordered: bool = True,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> Iterator[Any]:
        """See `RemoteFunction.starmap`."""
        tuples = (tuple(item) for item in items)
        return mapping.map_items(self._known(), tuples, concurrency, return_exceptions, ordered, self._shown(items, progress))

    def map_aio(
        self,
        items: Iterable[Any],
        *,
        concurrency: int = 32,
        ordered: bool = True,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> AsyncIterator[Any]:
        """`map` for `async for`."""
        shown = self._shown(items, progress)
        return self._map_aio(((item,) for item in items), concurrency, return_exceptions, ordered, shown)

    def starmap_aio(
        self,
        items: Iterable[Iterable[Any]],
        *,
        concurrency: int = 32,
        ordered: bool = True,
        return_exceptions: bool = False,
        progress: bool = False,
    ) -> AsyncIterator[Any]:
        """`starmap` for `async for`."""
        shown = self._shown(items, progress)
        return self._map_aio((tuple(item) for item in items), concurrency, return_exceptions, ordered, shown)

    async def _map_aio(self, items: Iterator[tuple[Any, ...]], *how: Any) -> AsyncIterator[Any]:
        known = await in_thread(self._known)
        results = mapping.map_items_async(known, items, *how)
        try:
            async for result in results:
                yield result
        finally:
            await results.aclose()  # type: ignore[attr-defined]

    def _shown(self, items: Iterable[Any], progress: bool) -> Progress | None:
        return Progress(self.name, items) if progress else None

    def _known(self) -> _Known:
        if self._found is None or monotonic() - self._found[0] > PEER_CACHE_S:
            self._found = (monotonic(), self._look_up())
        return self._found[1]

    def _look_up(self) -> _Known:
        patience = Patience()
        target = self._client.target(patience)
        record = discovery.functions_of(target, self._client.is_peer, patience)
        if target.is_queue:
            if self._route:
                raise CallError(f"endpoint {target.name!r} is queue-based and has no routes", endpoint=target.name)
            return _queue_function(record["functions"], self._method, self._client)
        if self._method:
            raise CallError(f"endpoint {target.name!r} is load-balanced: name a route, not a method", endpoint=target.name)
        key = _one_of("route", self._route, record["routes"], target.name)
        return _Known(key, Signature([_rest()]), self._client, False, tuple(key.split(" ", 1)), "")

    def __repr__(self) -> str:
        return f"<function {self.name!r} by its name{f', {self._method or self._route}' if self._method or self._route else ''}>"


def client_of(name: str, url: str | None, api_key: str | None) -> EndpointClient:
    """Raises ValueError for what names no endpoint."""
    app, environment, endpoint = _parts(name)
    return EndpointClient(name=endpoint, app=app, environment=environment, url=url, api_key=api_key)


def _parts(name: str) -> tuple[str | None, str | None, str]:
    """App and environment are None where only the endpoint is named."""
    parts = name.split("/") if isinstance(name, str) else []
    if len(parts) == 1 and parts[0]:
        return None, None, parts[0]
    if len(parts) == 3 and all(parts):
        return parts[0], parts[1], parts[2]
    raise ValueError(f'{name!r} names no endpoint: write "app/environment/endpoint", or "endpoint" for the own app and environment')


class _Known(RemoteFunction[..., "Any"]):
    """What was looked up, in the form that calls take."""

    def __init__(
        self,
        name: str,
        signature: Signature,
        client: EndpointClient,
        is_generator: bool,
        route: tuple[str, ...] | None,
        method: str,
    ) -> None:
        self._signature = signature
        super().__init__(_stub(name, signature, is_generator), client, route, method)  # type: ignore[arg-type]

    def is_here(self) -> bool:
        """Never: it has no code here."""
        return False


def _stub(name: str, signature: Signature, is_generator: bool) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{name} runs on its endpoint only")

    def generator(*args: Any, **kwargs: Any) -> Iterator[Any]:
        yield function()

    stub: Any = generator if is_generator else function
    stub.__name__ = stub.__qualname__ = name
    stub.__signature__ = signature
    return stub


def _queue_function(functions: list[dict[str, Any]], method: str, client: EndpointClient) -> _Known:
    """Of an endpoint that has no declared function (an image's own worker) the arguments are what is given by name."""
    endpoint = str(client.name)
    if not functions:
        return _Known(endpoint, Signature([_rest()]), client, False, None, method)
    found = functions[0]
    parameters = found.get("parameters") or []
    if found["kind"] == "class":
        by_method = found.get("methodParameters") or {}
        if method or "__call__" not in by_method:
            method = _one_of("method", method, [*by_method] or found["methods"], endpoint)
        parameters = by_method.get(method or "__call__", parameters)
    elif method:
        raise CallError(f"endpoint {endpoint!r} runs a function, which has no methods", endpoint=endpoint)
    own = [Parameter("self", Parameter.POSITIONAL_ONLY)] if method else []
    signature = Signature([*own, *_in_order(parameters)])
    name = f"{found['name']}.{method}" if method else found["name"]
    return _Known(name, signature, client, bool(found.get("generator")), None, method)


def _rest() -> Parameter:
    return Parameter("fields", Parameter.VAR_KEYWORD)


def _in_order(parameters: list[dict[str, Any]]) -> list[Parameter]:
    """As Python wants them: behind one with a default each has one, or is given by name."""
    found: list[Parameter] = []
    kind: Any = Parameter.POSITIONAL_OR_KEYWORD
    for each in parameters:
        name, default = each["name"], Parameter.empty if each.get("default") is None else each["default"]
        if name.startswith("**"):
            found.append(Parameter(name[2:], Parameter.VAR_KEYWORD))
        elif name.startswith("*"):
            found.append(Parameter(name[1:], Parameter.VAR_POSITIONAL))
            kind = Parameter.KEYWORD_ONLY
        else:
            if default is Parameter.empty and found and found[-1].default is not Parameter.empty:
                kind = Parameter.KEYWORD_ONLY
            found.append(Parameter(name, kind, default=default))
    return found


def _one_of(what: str, given: str, there: list[str], endpoint: str) -> str:
    """Raises CallError with those that come near."""
    if given in there:
        return given
    if not given and len(there) == 1:
        return there[0]
    near = get_close_matches(given, there, n=3, cutoff=0.5) or there
    names = ", ".join(repr(each) for each in near[:10])
    if given:
        message = f"endpoint {endpoint!r} has no {what} {given!r}: there is {names}" if there else f"endpoint {endpoint!r} has no {what}s"
    else:
        message = f"endpoint {endpoint!r} has several {what}s: name one of them with {what}=, of {names}"
    raise CallError(message, endpoint=endpoint)
