"""The same functions and requests through FastAPI and through the runtime; prints one JSON line with what differs.

FastAPI takes a plain parameter of a POST from the query; the runtime takes it from the body, so for FastAPI such
parameters are marked as `Body(embed=True)`, or `Form()` where the request is a form.
"""

import asyncio
import enum
import inspect
import json
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Dict, List, Literal, Optional, Tuple, Union
from uuid import UUID

from fastapi import Body, FastAPI, File, Form
from pydantic import BaseModel
from typing_extensions import TypedDict

from svc._runtime.link.protocol import REQUEST
from svc._runtime.http.routes import RouteTable
from svc._runtime.work.work import Work


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Item:
    name: str
    price: float = 1.0
    tags: List[str] = field(default_factory=list)


@dataclass
class Order:
    items: List[Item]
    color: Color = Color.RED


class Pair(TypedDict):
    left: int
    right: Optional[int]


class Model(BaseModel):
    name: str
    age: int = 3


NONE = inspect.Parameter.empty
SCALARS = ["1", "-1", "1.0", "1.5", "", "x", "true", "TRUE", "no", "0", "nan", " 7 ", "1e2", "0x10", "1_000"]
JSON_VALUES = [1, 1.0, 1.5, True, False, None, "1", "1.5", "x", "", "true", [], [1], {}, {"a": 1}, -0.0, 10**20]

# (method, annotations by parameter, defaults, path, list of (suffix of the URL, headers, body))
CASES = []


def query(hint, values, default=NONE):
    CASES.append(("GET", {"v": hint}, {"v": default}, "/", [(f"/?v={_quoted(value)}", {}, b"") for value in values]))


def in_path(hint, values):
    CASES.append(("GET", {"v": hint}, {}, "/p/{v}", [(f"/p/{_quoted(value)}", {}, b"") for value in values if value]))


def body(hint, values, default=NONE):
    requests = [("/", {"content-type": "application/json"}, json.dumps({"v": value}).encode()) for value in values]
    CASES.append(("POST", {"v": hint, "w": int}, {"v": default, "w": 0}, "/", requests))


def _quoted(value):
    from urllib.parse import quote

    return quote(value, safe="")


for scalar in (int, float, bool, str, Optional[int], Literal["x", "1"], Color, Level, Union[int, str], Any):
    query(scalar, SCALARS)
    in_path(scalar, SCALARS)
    body(scalar, JSON_VALUES)
for other in (date, datetime, UUID, Decimal):
    values = ["2024-02-29", "2024-02-30", "2024-02-29T10:00:00Z", "12345678-1234-5678-1234-567812345678", "1.50", "x"]
    query(other, values)
    body(other, values)
query(int, ["1"], 5)
query(list[int], ["1", "x"])
query(set[str], ["a"])
query(tuple[int, ...], ["1"])
for hint in (list[int], List[Any], dict, Dict[str, int], dict[int, str], set[int], tuple[int, str], Tuple[int, ...], list[list[int]]):
    body(hint, [[], [1], ["1", "a"], [1, "a"], [1, 2, 3], {}, {"a": "1"}, {"1": "a"}, "x", None, [[1], ["x"]], [[1]]])
for hint in (Item, Order, Pair, Model, Optional[Item], list[Item], Union[Item, int], list[Color], Annotated[int, "note"]):
    body(hint, [{}, {"name": "a"}, {"name": 1, "price": "x"}, {"left": "1", "right": None}, {"left": 1},
                {"items": [{"name": "a"}, {"price": 2}], "color": "green"}, {"items": []}, [], [{"name": "a"}, 1], 5, None,
                {"name": "a", "age": "4", "more": 1}, ["red", "green"], "x"])  # fmt: skip
JSON = {"content-type": "application/json"}
CASES += [
    ("GET", {"a": int, "b": int, "c": Optional[str]}, {"c": None}, "/", [
        ("/", {}, b""), ("/?a=1", {}, b""), ("/?a=1&b=2&c=", {}, b""), ("/?a=x&b=y&c=z", {}, b""), ("/?a=1&a=2&b=3", {}, b""),
        ("/?a=1&b=%31&c=%C3%A4%20+", {}, b""), ("/?d=1", {}, b""),
    ]),
    ("GET", {"tags": List[str], "n": list[int]}, {"tags": [], "n": []}, "/", [
        ("/?tags=a&tags=b&n=1&n=x&n=3.5", {}, b""), ("/", {}, b""),
    ]),
    ("GET", {"a": int, "rest": str}, {}, "/x/{a}/{rest:path}", [("/x/1/b/c", {}, b""), ("/x/q/b", {}, b""), ("/x/1/", {}, b"")]),
    ("POST", {"a": int, "b": str}, {"b": "d"}, "/", [
        ("/", JSON, b'{"a": 1}'), ("/", JSON, b"{}"), ("/", JSON, b'{"a": 1, "more": 2}'), ("/", JSON, b'{"a": 1'),
        ("/", JSON, b"nope"), ("/", JSON, b'{"a": 1}}'), ("/", {"content-type": "application/vnd.x+json"}, b'{"a": 1}'),
        ("/", JSON, b'{"a": "x", "b": 5}'), ("/", JSON, b'{"b": []}'),
    ]),
    ("PUT", {"key": int, "a": int}, {}, "/k/{key}", [("/k/1", JSON, b'{"a": 2}'), ("/k/x", JSON, b'{"a": "y"}')]),
]  # fmt: skip
FORM = {"content-type": "application/x-www-form-urlencoded"}
CASES.append(("FORM", {"a": int, "b": str, "c": list[str]}, {"b": "d", "c": []}, "/", [
    ("/", FORM, b"a=1&b=x&c=1&c=2"), ("/", FORM, b"a=x"), ("/", FORM, b"b=%C3%A4+%2B"),
]))  # fmt: skip
PARTS = (
    b'--B\r\nContent-Disposition: form-data; name="a"\r\n\r\n%s\r\n'
    b'--B\r\nContent-Disposition: form-data; name="f"; filename="x.txt"\r\nContent-Type: text/plain\r\n\r\nhel\r\nlo\r\n--B--\r\n'
)
MULTIPART = {"content-type": "multipart/form-data; boundary=B"}
CASES.append(("FILE", {"a": int, "f": bytes}, {}, "/", [
    ("/", MULTIPART, PARTS % b"1"), ("/", MULTIPART, PARTS % b"x"),
]))  # fmt: skip

WHOLE = [
    ("POST", Item, [b'{"name": "a"}', b'{"price": "x"}', b"[]", b'"x"', b"5", b'{"name": "a", "extra": 1}']),
    ("POST", Model, [b'{"name": "a"}', b'{"age": "x"}']),
    ("POST", dict, [b'{"a": 1}', b"{}", b"[]"]),
    ("POST", Dict[str, int], [b'{"a": "1"}', b'{"a": "x"}']),
    ("POST", list[int], [b"[1, 2]", b'["x"]', b"[]"]),
]

REQUESTS = []
for method, hints, defaults, path, requests in CASES:
    REQUESTS += [(method, hints, defaults, path, request, False) for request in requests]
for method, hint, bodies in WHOLE:
    REQUESTS += [(method, {"v": hint}, {}, "/", ("/", JSON, body), True) for body in bodies]


def make(hints, defaults, mark):
    def function(**given):
        return {"got": {name: repr(value) for name, value in given.items()}}

    parameters = []
    for name, hint in hints.items():
        default = defaults.get(name, NONE)
        annotation = Annotated[hint, mark(name)] if mark and mark(name) is not None else hint
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
    function.__signature__ = inspect.Signature(parameters)
    return function


def ours(method, hints, defaults, path):
    """A function with real parameters, as the runtime reads them from the code object."""
    scope = {"hints": hints, "defaults": defaults}
    shown = ", ".join(f"{name}: hints[{name!r}]" + ("" if defaults.get(name, NONE) is NONE else f" = defaults[{name!r}]")
                      for name in sorted(hints, key=lambda name: defaults.get(name, NONE) is not NONE))  # fmt: skip
    names = ", ".join(f"{name!r}: repr({name})" for name in hints)
    exec(f"def function({shown}):\n    return {{'got': {{{names}}}}}", scope)
    function = scope["function"]
    function.__annotations__ = dict(hints)
    return RouteTable({(method, path): function})


def through_ours(method, hints, defaults, path, request, whole):
    real = "POST" if method in ("FORM", "FILE") else method
    url, headers, content = request
    target, _, search = url.partition("?")
    head = {"id": "r", "method": real, "path": target, "query": search, "headers": list(headers.items())}
    reply = ours(real, hints, defaults, path).answer(Work(REQUEST, 1, head, content))
    return reply.status, json.loads(reply.body)


def through_fastapi(method, hints, defaults, path, request, whole):
    from urllib.parse import unquote

    app = FastAPI()
    in_url = {name for name in hints if "{" + name in path}
    hints = {name: hint if name not in in_url else hint for name, hint in hints.items()}

    def mark(name):
        if name in in_url:
            return None
        if method == "FORM":
            return Form()
        if method == "FILE":
            return File() if hints[name] is bytes else Form()
        if method == "GET":
            from fastapi import Query

            return Query()
        return None if whole else Body(embed=True)

    real = "POST" if method in ("FORM", "FILE") else method
    app.add_api_route(path, make(hints, defaults, mark), methods=[real])
    url, headers, content = request
    target, _, search = url.partition("?")
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": real, "path": unquote(target),
             "raw_path": target.encode(), "query_string": search.encode(), "root_path": "", "scheme": "http",
             "headers": [(name.encode(), value.encode()) for name, value in headers.items()]}  # fmt: skip
    sent = []

    async def receive():
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent[1:]))


def comparable(answer):
    status, body = answer
    if isinstance(body, dict) and isinstance(body.get("detail"), list):
        problems = [[one["loc"], one["msg"], one["type"]] for one in body["detail"]]
        return [status, sorted(problems, key=str)]
    text = json.dumps(body.get("got", "") if isinstance(body, dict) else body)
    return [status, text.replace("TzInfo(0)", "datetime.timezone.utc")]


# What docs/reference/load-balanced.md says about the differences, in the same order.
def documented(hints, request, ours, fastapi):
    hint = hints.get("v")
    if hint in (date, datetime, UUID) and ours[0] == fastapi[0] == 422:
        return "dates, times and UUIDs: the message says less"
    if hint is datetime and fastapi[0] == 200 and "1.50" in str(request):
        return "times as seconds since 1970 are refused"
    if hint is Level and b"100000000000000000000" in request[2]:
        return "numbers of more than 64 bits"
    return ""


def main():
    differences = []
    for case in REQUESTS:
        method, hints, defaults, path, request, whole = case
        results = []
        for way in (through_ours, through_fastapi):
            try:
                results.append(comparable(way(*case)))
            except Exception as error:
                results.append(["raised", f"{type(error).__name__}: {error}"])
        if results[0] != results[1] and not documented(hints, request, *results):
            shown = {name: str(hint) for name, hint in hints.items()}
            differences.append({"method": method, "parameters": shown, "request": [request[0], request[2].decode()],
                                "ours": results[0], "fastapi": results[1]})  # fmt: skip
    print(json.dumps({"compared": len(REQUESTS), "differences": differences}))


main()
