"""The routes of a load-balanced endpoint: finds the function of a request and binds its arguments."""

from __future__ import annotations

import re
from urllib.parse import unquote

from svc._runtime.http.binding import Plan, Unprocessable
from svc._runtime.http.reply import JSON_HEADERS, Reply, error_reply, in_parts, reply_of, reply_to_peer, with_length
from svc._runtime.limits import WHOLE_BODY_MAX_BYTES
from svc._values import codec
from svc._values.signature import is_async

class Bound:
    """Either a reply that needs no function, or a call to make."""

    __slots__ = ("call", "is_application", "is_async", "is_socket", "reply")

    def __init__(self, reply: Reply | None, call=None, is_async: bool = False, is_application: bool = False) -> None:
        self.is_application = is_application
        self.is_socket = False
        """`call` takes the connection."""
        self.reply = reply
        self.call = call
        self.is_async = is_async


class Route:
    __slots__ = ("function", "is_async", "key", "plan", "positional")

    def __init__(self, function, method: str, path: str) -> None:
        self.function = function
        self.key = f"{method} {path}"
        """As in the manifest."""
        self.is_async = is_async(function)
        self.plan = Plan(function, getattr(function, "__name__", path), method, tuple(_PARAMETER.findall(path)))
        self.positional = self.plan._positional_only


_PARAMETER = re.compile(r"\{([^}:]+)(?::[^}]*)?\}")


class RouteTable:
    def __init__(self, routes: dict, name: str = "") -> None:
        self.name = name
        self.application = routes.get(("ANY", "/"))
        """The ASGI application that answers what no route does."""
        self.by_path: dict[str, dict[str, Route]] = {}
        self._document: bytes | None = None
        self._static: dict[str, dict[str, Route]] = {}
        self._patterns: list[tuple[re.Pattern, dict[str, Route]]] = []
        by_path = self.by_path
        for (method, path), function in routes.items():
            if method == "ANY":
                continue
            by_path.setdefault(path, {})[method] = Route(function, method, path)
        for path, methods in by_path.items():
            if "{" in path:
                self._patterns.append((re.compile(_pattern(path)), methods))
            else:
                self._static[path] = methods
        # The more of a path is fixed, the sooner it is tried.
        self._patterns.sort(key=lambda entry: entry[0].pattern.count("("))

    def answer(self, work) -> Reply:
        """The reply to a request, with the function run in this thread."""
        bound = self.bind(work)
        if bound.reply is not None:
            return bound.reply
        return self.reply_to(work, bound.call())

    def bind(self, work) -> Bound:
        head = work.head
        method, path = head["method"], head["path"]
        methods, values = self._find(path)
        if "publicRoutes" in head and not _is_public(head, methods):
            return Bound(error_reply(401, "MISSING_KEY", "No API key was given", "The request carries no API key."))
        if methods is None:
            return self._without_path(method, path)
        route = methods.get(method)
        if route is None:
            if method == "HEAD" and "GET" in methods:
                route = methods["GET"]
            elif self.application is not None:
                return Bound(None, is_application=True)
            else:
                return Bound(_without_route(method, path, methods))
        if work.peer:
            from svc._runtime.work.peer import check_request

            check_request(work.context)
        try:
            given = route.plan.bind(values, head.get("query", ""), head.get("headers", ()), work)
        except Unprocessable as error:
            return Bound(Reply(422, JSON_HEADERS, codec.encode({"detail": error.detail})))
        function = route.function
        if route.plan.socket is not None:
            return _to_socket(function, route.plan.socket, given)
        if route.positional:
            first = [given.pop(name) for name in route.positional if name in given]
            return Bound(None, lambda: function(*first, **given), route.is_async)
        return Bound(None, lambda: function(**given), route.is_async)

    def _without_path(self, method: str, path: str) -> Bound:
        if path == "/ping":
            return Bound(Reply(200, JSON_HEADERS, b'{"status":"ready"}'))
        if self.application is not None:
            return Bound(None, is_application=True)
        if path == "/openapi.json" and method in ("GET", "HEAD"):
            return Bound(Reply(200, JSON_HEADERS, self.document()))
        return Bound(error_reply(404, "NOT_FOUND", "Not found", f"There is no route {path} on this endpoint."))

    def document(self) -> bytes:
        """The endpoint's OpenAPI document, made when it is first asked for."""
        if self._document is None:
            from svc._runtime.http.openapi import openapi

            self._document = codec.encode(openapi(self))
        return self._document

    def reads_as_it_comes(self, head: dict) -> bool:
        """Whether the request's function reads its body while it arrives, so that it starts before the end of it."""
        if head["method"] == "WEBSOCKET":
            return True  # its body ends with the connection
        methods, _ = self._find(head["path"])
        route = methods.get(head["method"]) if methods is not None else None
        if route is None:
            return self.application is not None
        return route.plan.upload is not None

    def _find(self, path: str):
        methods = self._static.get(path)
        if methods is not None:
            return methods, {}
        if "%" in path:
            methods = self._static.get(unquote(path))
            if methods is not None:
                return methods, {}
        for pattern, methods in self._patterns:
            match = pattern.fullmatch(path)
            if match is not None:
                return methods, {name: unquote(value) for name, value in match.groupdict().items()}
        return None, {}

    def reply_to(self, work, value) -> Reply:
        """The reply made from what a function returned. Raises NotJson."""
        reply = reply_to_peer(value) if work.tagged else reply_of(value)
        if len(reply.body) > WHOLE_BODY_MAX_BYTES:
            reply = in_parts(reply)
            work.tagged = False  # what a Python peer gets is encoded already: the parts go out as they are
        if work.head["method"] == "HEAD":
            if reply.stream is None:
                reply.headers = with_length(reply)
            reply.body = b""
            reply.stream = None
        return reply


def _is_public(head: dict, methods: dict[str, Route] | None) -> bool:
    """Whether a caller without a key may have the route that its path has reached. Nothing else answers it."""
    route = (methods or {}).get(head["method"])
    if route is None and head["method"] == "HEAD":
        route = (methods or {}).get("GET")
    return route is not None and route.key in head["publicRoutes"].split("\n")


def _to_socket(function, name: str, given: dict) -> Bound:
    bound = Bound(None, lambda socket: function(**{name: socket}, **given), True)
    bound.is_socket = True
    return bound


def _pattern(path: str) -> str:
    """`/items/{item_id}` → one group per parameter; `{rest:path}` also matches slashes."""
    parts = []
    last = 0
    for match in _PARAMETER.finditer(path):
        parts.append(re.escape(path[last : match.start()]))
        everything = match.group(0).endswith(":path}")
        parts.append(f"(?P<{match.group(1)}>{'.*' if everything else '[^/]+'})")
        last = match.end()
    return "".join(parts) + re.escape(path[last:])


def _without_route(method: str, path: str, methods: dict) -> Reply:
    allowed = sorted({*(methods.keys() - {"WEBSOCKET"}), "OPTIONS", *(["HEAD"] if "GET" in methods else [])})
    allow = ["allow", ", ".join(allowed)]
    if method == "OPTIONS":
        return Reply(204, [allow])
    reply = error_reply(405, "METHOD_NOT_ALLOWED", "Method not allowed", f"{method} is not allowed on {path}.")
    reply.headers = [*reply.headers, allow]
    return reply
