"""What an EndpointClient asks: jobs and requests of an endpoint known by its id or name."""

from __future__ import annotations

from urllib.parse import urlencode

from svc import this_worker
from svc._calling import arguments, discovery, jobs, settings
from svc._calling.ask import TimeOver, ask
from svc._calling.connections import Patience
from svc._calling.discovery import Target
from svc._calling.jobs import Submission
from svc._calling.limits import ANSWER_LATE_S, EXECUTION_TIMEOUT_DEFAULT_MS, REQUEST_TIMEOUT_DEFAULT_MS
from svc._calling.outgoing import Outgoing
from svc._calling.route_calls import SAFE_METHODS, leads_out, query_texts, result_of
from svc._values import codec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping

    Find = Callable[[Patience, bool], Target]


def is_peer(app: str | None, environment: str | None, url: str | None, key: str | None) -> bool:
    """Whether this is a worker, and what is named is in its own environment."""
    here = this_worker.WORKER
    if here is None or url is not None or key is not None:
        return False
    return app in (None, here.app) and environment in (None, here.environment)


def target(
    id: str | None,
    name: str | None,
    app: str | None,
    environment: str | None,
    url: str | None,
    key: str | None,
    is_queue: bool,
    patience: Patience,
) -> Target:
    """An id says where its endpoint is; a name is looked up."""
    here = this_worker.WORKER
    if id is None and is_peer(app, environment, url, key):
        return discovery.find(name, patience)
    if id is None:
        if here is not None and app and environment:
            platform = settings.platform_of_worker(here.url, url, key)
        else:
            platform = settings.platform(url, key)
        return discovery.find_in(platform, name, app, environment, patience)
    if here is not None and is_peer(None, None, url, key):
        base, key = here.url, here.token
    else:
        platform = settings.platform(url, key)
        base, key = platform.url, platform.key
    return Target(id, id, f"{base}/{'v2' if is_queue else 'lb'}/{id}", key, is_queue, base)


def submission(
    find: Callable[[Patience], Target],
    input: Mapping[str, Any] | None,
    key: str | None,
    envelope: dict[str, Any] | None = None,
    policy: dict[str, Any] | None = None,
    **body: Any,
) -> Submission:
    """Raises NotSendable, TypeError."""
    if input is not None and not hasattr(input, "keys"):
        raise TypeError(f"input holds the function's arguments by name, it cannot be a {type(input).__qualname__}")
    given = arguments.to_json(dict(input or {}), "input")
    told = (envelope or {"$svc": {"tagged": True}})["$svc"]
    given["$svc"] = {**told, "convert": True}  # nobody here knows what the function takes
    policy = {name: value for name, value in (policy or {}).items() if value}
    return Submission(find, jobs.body_of(given, policy=policy, **body), key)


def runner(
    name: str | None,
    find: Callable[[Patience], Target],
    input: Mapping[str, Any] | None,
    method: str,
    timeout: float | None,
) -> tuple[Callable[[], Any], Patience]:
    """What waits for the output, and the patience it has."""
    outgoing = Outgoing(name)
    patience = outgoing.patience(timeout)
    left_ms = outgoing.left_ms()
    policy = (
        {"executionTimeout": max(5000, left_ms)}
        if left_ms is not None and left_ms < EXECUTION_TIMEOUT_DEFAULT_MS
        else {}
    )
    job = submission(find, input, None, outgoing.envelope(), policy, method=method)

    def run() -> Any:
        try:
            return job.run(patience, ())
        except TimeOver:
            raise _over(outgoing, timeout) from None

    return run, patience


def health(find: Find) -> Any:
    patience = Patience()
    at = find(patience, True)
    answer = ask("GET", at.url, "/health", headers=at.headers, timeout_s=ANSWER_LATE_S, patience=patience, is_safe=True)
    jobs.check(answer, at.name)
    return codec.decode(answer.body)


def sender(
    find: Find,
    method: str,
    path: str,
    body: Any,
    params: Mapping[str, Any] | None,
    headers: Mapping[str, str] | None,
    timeout: float | None,
) -> tuple[Callable[[], Any], Patience]:
    """What sends the request and waits for the answer, and the patience it has. Raises NotSendable, ValueError."""
    if not path.startswith("/"):
        raise ValueError(f"a route's path starts with '/', not {path!r}")
    if leads_out(path):
        raise ValueError(f"the path {path!r} leads out of the endpoint: leave '..' out and quote what you put into it")
    method = method.upper()
    outgoing = Outgoing(None)
    patience = outgoing.patience(timeout)
    is_raw = isinstance(body, (bytes, bytearray))
    data = bytes(body) if is_raw else None if body is None else _json(body)
    pairs = [(name, text) for name, value in (params or {}).items() for text in query_texts("params", name, value)]
    whole = path + (("&" if "?" in path else "?") + urlencode(pairs) if pairs else "")
    own = {"Content-Type": "application/octet-stream" if is_raw else "application/json"}
    own.update({name: value for name, value in outgoing.headers().items() if name != "X-Svc-Tagged"})
    longest = (10 * REQUEST_TIMEOUT_DEFAULT_MS + EXECUTION_TIMEOUT_DEFAULT_MS) / 1000

    def send() -> Any:
        at = find(patience, False)
        left = patience.left()
        try:
            answer = ask(
                method,
                at.url,
                whole,
                headers={**at.headers, **own, **(headers or {})},
                body=data,
                timeout_s=longest if left is None else left,
                patience=patience,
                is_safe=method in SAFE_METHODS,
            )
        except TimeOver:
            raise _over(outgoing, timeout) from None
        return result_of(answer, at.name)

    return send, patience


def _json(body: Any) -> bytes:
    from svc.errors import NotSendable

    try:
        return codec.encode(body, "body")
    except codec.NotJson as error:
        raise NotSendable(str(error)) from None


def _over(outgoing: Outgoing, timeout: float | None) -> Exception:
    if outgoing.left_ms() == 0:
        return outgoing.timed_out()
    return TimeoutError(f"not done after {timeout} s")
