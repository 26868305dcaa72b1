"""One call of a declared function that is not this process's own: bound, checked, prepared, then waited for."""

from __future__ import annotations

import inspect

from svc._calling import arguments, discovery, jobs
from svc._calling.ask import TimeOver
from svc._calling.client import EndpointClient
from svc._calling.chunks import call_chunks
from svc._calling.connections import Patience
from svc._calling.job import Job
from svc._calling.jobs import Submission
from svc._calling.limits import (
    EXECUTION_TIMEOUT_DEFAULT_MS,
    EXECUTION_TIMEOUT_MAX_MS,
    EXECUTION_TIMEOUT_MIN_MS,
)
from svc._calling.outgoing import Outgoing
from svc._calling.route_calls import RouteCall
from svc._calling.stream import RemoteStream
from svc._calling.threads import in_thread, runs_in_loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Coroutine

    from svc._calling.discovery import Target
    from svc.remote_function import RemoteFunction

    Function = RemoteFunction[..., Any]


class Prepared:
    """A call whose arguments are checked and whose context is taken. `run` waits for the result."""

    __slots__ = ("_run", "outgoing", "patience")

    def __init__(self, outgoing: Outgoing, run: Callable[[Patience], Any]) -> None:
        self.outgoing = outgoing
        self.patience = outgoing.patience()
        self._run = run

    def run(self) -> Any:
        try:
            return self._run(self.patience)
        except TimeOver:
            raise self.outgoing.timed_out() from None


def call(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`fn(...)`. What it returns: see RemoteFunction."""
    given = arguments.bind(function, args, kwargs)
    wrapped = function.__wrapped__
    if arguments.is_generator(wrapped):
        return _stream(function, given)
    if inspect.iscoroutinefunction(wrapped):
        return _result(function, given)
    if runs_in_loop():
        return _result(function, given)
    return prepare(function, given).run()


def call_async(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Coroutine[Any, Any, Any]:
    """`fn.aio(...)`."""
    if function.is_here():
        return _own(function, args, kwargs)
    given = arguments.bind(function, args, kwargs)
    if arguments.is_generator(function.__wrapped__):
        return _returned(_stream(function, given))
    return _result(function, given)


async def _result(function: Function, given: dict[str, Any]) -> Any:
    prepared = prepare(function, given)
    return await in_thread(prepared.run, prepared.patience)


async def _returned(value: Any) -> Any:
    return value


async def _own(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    wrapped = function.__wrapped__
    if inspect.iscoroutinefunction(wrapped):
        return await wrapped(*args, **kwargs)
    if arguments.is_generator(wrapped):
        return wrapped(*args, **kwargs)
    return await in_thread(lambda: wrapped(*args, **kwargs))


def prepare(function: Function, given: dict[str, Any]) -> Prepared:
    """Raises NotSendable, CallCycle, JobTimedOut; nothing is sent yet."""
    outgoing = _outgoing(function)
    if function.route is not None:
        return Prepared(outgoing, RouteCall(function, given, outgoing, _finder(function)).run)
    hints = arguments.result_hints(function.__wrapped__)
    submission = _submission(function, given, outgoing)
    return Prepared(outgoing, lambda patience: submission.run(patience, hints))


def _finder(function: Function) -> Callable[[Patience], Target]:
    """Where it is: in the app and environment of this process, or where its client says."""
    endpoint = function.endpoint
    if isinstance(endpoint, EndpointClient):
        return endpoint.target
    return lambda patience: discovery.find(endpoint.name, patience)


def _outgoing(function: Function) -> Outgoing:
    """Endpoints of other environments are in no circle with this one, whatever their names."""
    endpoint = function.endpoint
    if not isinstance(endpoint, EndpointClient) or endpoint.is_peer:
        return Outgoing(endpoint.name)
    outgoing = Outgoing(None)
    outgoing.endpoint = endpoint.name or ""
    return outgoing


def stream(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RemoteStream[Any]:
    """The chunks of a generator."""
    if not arguments.is_generator(function.__wrapped__) and function.route is None:
        raise TypeError(f"{function.__name__} is no generator, which could be streamed: call it")
    return _stream(function, arguments.bind(function, args, kwargs))


def _stream(function: Function, given: dict[str, Any]) -> RemoteStream[Any]:
    outgoing = _outgoing(function)
    if function.route is not None:
        return RemoteStream(RouteCall(function, given, outgoing, _finder(function)).chunks, outgoing.patience())
    hints = arguments.result_hints(function.__wrapped__)
    submission = _submission(function, given, outgoing)

    def chunks(patience: Patience) -> Any:
        try:
            yield from call_chunks(submission, hints, patience)
        except TimeOver:
            raise outgoing.timed_out(submission.job_id) from None

    return RemoteStream(chunks, outgoing.patience())


def _submission(function: Function, given: dict[str, Any], outgoing: Outgoing | None) -> Submission:
    """`outgoing` is None for a job that nobody waits for: it takes no part of its maker's time."""
    input = arguments.to_json(given, function.__name__)
    input.update(outgoing.envelope() if outgoing is not None else {"$svc": {"tagged": True}})
    policy = _policy(function, outgoing.left_ms() if outgoing is not None else None)
    body = jobs.body_of(input, method=function.method, policy=policy)
    return Submission(_finder(function), body)


def _policy(function: Function, left_ms: int | None) -> dict[str, int]:
    """The callee gets what is left of the caller's time, and never more than its own."""
    own_ms = function.endpoint.settings.get("execution_timeout_ms", EXECUTION_TIMEOUT_DEFAULT_MS)
    if left_ms is None or left_ms >= own_ms:
        return {}
    return {"executionTimeout": min(max(left_ms, EXECUTION_TIMEOUT_MIN_MS), EXECUTION_TIMEOUT_MAX_MS)}


def spawn(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Job[Any]:
    """`fn.spawn(...)`."""
    return _spawner(function, args, kwargs)()


def spawn_async(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Coroutine[Any, Any, Job[Any]]:
    """`fn.spawn_aio(...)`."""
    return in_thread(_spawner(function, args, kwargs))


def _spawner(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Job[Any]]:
    if function.route is not None:
        raise TypeError(f"{function.__name__} is a route of a load-balanced endpoint, which has no jobs: call it")
    given = arguments.bind(function, args, kwargs)
    hints = arguments.result_hints(function.__wrapped__)
    submission = _submission(function, given, None)

    def start() -> Job[Any]:
        job = submission.start(Patience())
        assert submission.target is not None
        return Job(submission.target, job, hints)

    return start
