"""Calls of a load-balanced endpoint's route functions: arguments become path, query and body, as the endpoint binds
them."""

from __future__ import annotations

import re
from http.client import HTTPException
from urllib.parse import quote, urlencode

from svc._calling import arguments, discovery
from svc._calling.ask import TimeOver, ask, problem_of
from svc._calling.connections import Answer, Patience, Stream
from svc._calling.jobs import failure_fields, read_value
from svc._calling.limits import EXECUTION_TIMEOUT_DEFAULT_MS, REQUEST_TIMEOUT_DEFAULT_MS
from svc._values import codec, tagged
from svc._values.type_hints import reads_upload, type_hints
from svc.errors import CallError, JobTimedOut, NotSendable, PlatformError, RemoteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator

    from svc._calling.discovery import Target
    from svc._calling.outgoing import Outgoing
    from svc.remote_function import RemoteFunction

    Find = Callable[[Patience], Target]

_PARAMETER = re.compile(r"\{([^}:]+)(:[^}]*)?\}")
_SLASH = re.compile(r"/|\\|%2f|%5c", re.IGNORECASE)
_DOT = re.compile("%2e", re.IGNORECASE)
_WITH_BODY = ("POST", "PUT", "PATCH")
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class RouteCall:
    """One request to be made. It is repeated only where it cannot have been received, or its method promises no
    effect."""

    def __init__(self, function: RemoteFunction[..., Any], given: dict[str, Any], outgoing: Outgoing, find: Find) -> None:
        """Raises NotSendable."""
        assert function.route is not None
        self._endpoint = function.endpoint
        self._find = find
        self._outgoing = outgoing
        self._method, path = function.route
        self._hints = arguments.result_hints(function.__wrapped__)
        name = function.__name__
        rest = dict(given)
        self._path = _PARAMETER.sub(lambda found: _path_part(name, found, rest), path)
        if leads_out(self._path):
            raise NotSendable(f"{name}(): an argument with '..' in it cannot be a part of the path")
        self._body: Any = None
        upload = next(
            (key for key, hint in type_hints(function.__wrapped__).items() if key in rest and reads_upload(hint)), None
        )
        if upload is not None:
            self._body = rest.pop(upload)
            self._type = "application/octet-stream"
        elif self._method in _WITH_BODY:
            self._body = arguments.text_of(arguments.to_json(rest, name))
            self._type = "application/json"
            rest = {}
        pairs = [(key, text) for key, value in rest.items() for text in query_texts(name, key, value)]
        if pairs:
            self._path += "?" + urlencode(pairs)

    def run(self, patience: Patience) -> Any:
        """The function's result."""
        answer = self._send(patience, streams=False)
        return result_of(answer, self._outgoing.endpoint, self._hints)

    def chunks(self, patience: Patience) -> Iterator[Any]:
        """What the route's generator yields."""
        try:
            answer = self._send(patience, streams=True)
        except TimeOver:
            raise self._outgoing.timed_out() from None
        stream = answer.stream
        if stream is None:
            result_of(answer, self._outgoing.endpoint, self._hints)
            return
        if answer.headers.get("x-svc-tagged") != "lines":
            answer.body = stream.rest()
            stream.close()
            yield from result_of(answer, self._outgoing.endpoint, self._hints)
            return
        try:
            yield from _lines(stream, self._outgoing.endpoint, self._hints)
        finally:
            stream.close()

    def _send(self, patience: Patience, streams: bool) -> Answer:
        target = self._find(patience)
        answer = self._ask(target, patience, streams)
        if answer.status == 404 and problem_of(answer, "")[1] == "ENDPOINT_NOT_FOUND":
            discovery.forget(target)
            answer = self._ask(self._find(patience), patience, streams)
        return answer

    def _ask(self, target: Target, patience: Patience, streams: bool) -> Answer:
        if target.is_queue:
            raise CallError(
                f"endpoint {target.name!r} is deployed as a queue-based one: deploy again", endpoint=target.name
            )
        headers = {**target.headers, **self._outgoing.headers()}
        if self._body is not None:
            headers["Content-Type"] = self._type
        left = patience.left()
        return ask(
            self._method,
            target.url,
            self._path,
            headers=headers,
            body=self._body,
            timeout_s=self._longest_s() if left is None else left,
            patience=patience,
            is_safe=self._method in SAFE_METHODS,
            streams=streams,
        )

    def _longest_s(self) -> float:
        """A worker is waited for, then the function runs; the platform ends both by itself, this is the net below."""
        settings = self._endpoint.settings
        waiting: float = max(settings.get("request_timeout_ms", 0), 10 * REQUEST_TIMEOUT_DEFAULT_MS)
        running: float = settings.get("execution_timeout_ms", EXECUTION_TIMEOUT_DEFAULT_MS)
        return (waiting + running) / 1000


def result_of(answer: Answer, endpoint: str, hints: tuple[Any, ...] = ()) -> Any:
    """What an answer stands for: a tagged value, JSON, text or bytes. Raises RemoteError, JobTimedOut,
    PlatformError."""
    kind = answer.headers.get("x-svc-tagged")
    if kind == "error":
        fields = failure_fields(codec.decode(answer.body))
        timed_out = answer.status == 504 or fields["error_type"] == "svc.JobTimedOut"
        raise (JobTimedOut if timed_out else RemoteError)(**fields, endpoint=endpoint, status=answer.status)
    if answer.status >= 400:
        raise _refusal(answer, endpoint)
    if kind == "value":
        value = codec.decode(answer.body)
        return read_value(value, hints) if tagged.has_tags(answer.body) else value
    if kind == "lines":
        return iter([read_value(codec.decode(line), hints) for line in answer.body.splitlines()[:-1]])
    content_type = answer.headers.get("content-type", "")
    if "json" in content_type and answer.body:
        return codec.decode(answer.body)
    if content_type.startswith("text/"):
        return answer.body.decode("utf-8", "replace")
    return answer.body or None if kind is None else answer.body


def _refusal(answer: Answer, endpoint: str) -> CallError:
    message, code = problem_of(answer, answer.body[:2000].decode("utf-8", "replace"))
    if code in ("REQUEST_TIMEOUT", "WORKER_WAIT_TIMEOUT"):
        return JobTimedOut(message, endpoint=endpoint, status=answer.status)
    if code and answer.headers.get("x-svc-tagged") is None and answer.status != 422:
        return PlatformError(message, status=answer.status, code=code, endpoint=endpoint)
    message = f"HTTP {answer.status}: {message}"
    return RemoteError(message, endpoint=endpoint, status=answer.status)


def _lines(stream: Stream, endpoint: str, hints: tuple[Any, ...]) -> Iterator[Any]:
    try:
        while line := stream.line():
            value = codec.decode(line)
            tag = value.get(tagged.TAG) if value.__class__ is dict and len(value) == 1 else None
            if tag and tag[0] == "end":
                return
            if tag and tag[0] == "error":
                raise RemoteError(endpoint=endpoint, **failure_fields(tag[1]))
            yield read_value(value, hints)
    except (OSError, HTTPException, ValueError):
        pass
    raise PlatformError("the stream broke off before its end", endpoint=endpoint)


def _path_part(function: str, found: re.Match[str], rest: dict[str, Any]) -> str:
    name = found.group(1)
    if name not in rest:
        raise NotSendable(f"{function}(): the argument {name!r} is a part of the path and has to be given")
    texts = query_texts(function, name, rest.pop(name))
    if len(texts) != 1:
        raise NotSendable(f"{function}(): the argument {name!r} is a part of the path and has to be one value")
    return quote(texts[0], safe="/" if found.group(2) == ":path" else "")


def query_texts(function: str, name: str, value: Any) -> list[str]:
    """What stands in the query for a value; nothing for None, several texts for a list."""
    if value is None:
        return []
    if isinstance(value, (list, tuple, set, frozenset)):
        return [text for item in value for text in query_texts(function, name, item)]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if hasattr(type(value), "__members__"):
        return query_texts(function, name, value.value)
    if isinstance(value, (str, int, float)):
        return [str(value)]
    if type(value).__module__ in ("datetime", "uuid", "decimal") or type(value).__module__.startswith("pathlib"):
        return [value.isoformat() if hasattr(value, "isoformat") else str(value)]
    kind = type(value).__qualname__
    raise NotSendable(f"{function}(): the argument {name!r} cannot be sent: a {kind} cannot stand in a path or query")


def leads_out(path: str) -> bool:
    """Whether something on the way could resolve a ".." in a path, however it is written: what a caller puts into one from
    elsewhere must not lead out of the endpoint, with the caller's key."""
    return any(_DOT.sub(".", part) == ".." for part in _SLASH.split(path.partition("?")[0]))
