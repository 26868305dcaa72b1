"""Load-balanced requests: routing, binding, conversion, replies. The table of conversions is checked in process."""

from __future__ import annotations

import enum
import json
import os
import sys
import unittest
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Dict, List, Literal, Optional, Tuple, TypedDict, Union
from uuid import UUID

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import LauncherTest, protocol

import svc
from svc._runtime.http.routes import RouteTable
from svc._runtime.work.work import Work
from svc._values.convert import converter
from svc._values.scalars import Invalid


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


class Options(TypedDict, total=False):
    depth: int
    name: str


class Pair(TypedDict):
    left: int
    right: Optional[int]


INT_PARSING = ((), "Input should be a valid integer, unable to parse string as an integer", "int_parsing")
BOOL_PARSING = ((), "Input should be a valid boolean, unable to interpret input", "bool_parsing")

# annotation, what came, what the function gets or the problems
TABLE = [
    (int, 5, 5),
    (int, "5", 5),
    (int, "-7", -7),
    (int, "5.0", 5),
    (int, 5.0, 5),
    (int, True, 1),
    (int, b"12", 12),
    (int, "five", [INT_PARSING]),
    (int, "", [INT_PARSING]),
    (int, 5.5, [((), "Input should be a valid integer, got a number with a fractional part", "int_from_float")]),
    (int, None, [((), "Input should be a valid integer", "int_type")]),
    (int, [1], [((), "Input should be a valid integer", "int_type")]),
    (float, 1.5, 1.5),
    (float, 2, 2.0),
    (float, "1e3", 1000.0),
    (float, "x", [((), "Input should be a valid number, unable to parse string as a number", "float_parsing")]),
    (float, None, [((), "Input should be a valid number", "float_type")]),
    (bool, True, True),
    (bool, "true", True),
    (bool, "YES", True),
    (bool, "off", False),
    (bool, "0", False),
    (bool, 1, True),
    (bool, 0.0, False),
    (bool, 2, [BOOL_PARSING]),
    (bool, "maybe", [BOOL_PARSING]),
    (bool, None, [((), "Input should be a valid boolean", "bool_type")]),
    (str, "a", "a"),
    (str, b"\xc3\xa4", "ä"),
    (str, 5, [((), "Input should be a valid string", "string_type")]),
    (str, None, [((), "Input should be a valid string", "string_type")]),
    (bytes, b"x", b"x"),
    (bytes, "ä", b"\xc3\xa4"),
    (bytes, 1, [((), "Input should be a valid bytes", "bytes_type")]),
    (list, [1, "a"], [1, "a"]),
    (list, (1, 2), [1, 2]),
    (list, "ab", [((), "Input should be a valid list", "list_type")]),
    (list, {"a": 1}, [((), "Input should be a valid list", "list_type")]),
    (List[int], ["1", 2], [1, 2]),
    (
        list[int],
        ["1", "x", 2.5],
        [
            ((1,), *INT_PARSING[1:]),
            ((2,), "Input should be a valid integer, got a number with a fractional part", "int_from_float"),
        ],
    ),
    (list[list[int]], [[1], ["y"]], [((1, 0), *INT_PARSING[1:])]),
    (set[int], [1, "1", 2], {1, 2}),
    (tuple, [1, 2], (1, 2)),
    (Tuple[int, str], ["1", "a"], (1, "a")),
    (tuple[int, ...], ["1", "2", "3"], (1, 2, 3)),
    (tuple[int, int], [1], [((1,), "Field required", "missing")]),
    (tuple[int, int], [1, 2, 3], [((), "Tuple should have at most 2 items after validation, not 3", "too_long")]),
    (dict, {"a": 1}, {"a": 1}),
    (dict, [1], [((), "Input should be a valid dictionary", "dict_type")]),
    (Dict[str, int], {"a": "1"}, {"a": 1}),
    (dict[str, int], {"a": "x"}, [(("a",), *INT_PARSING[1:])]),
    (dict[int, str], {"1": "a"}, {1: "a"}),
    (dict[int, str], {"k": "a"}, [(("k", "[key]"), *INT_PARSING[1:])]),
    (Optional[int], None, None),
    (Optional[int], "3", 3),
    (Optional[int], "x", [INT_PARSING]),
    (int | None, None, None),
    (int | None, "4", 4),
    (Union[int, str], "5", "5"),
    (Union[int, str], 5, 5),
    (
        Union[int, str],
        None,
        [
            (("int",), "Input should be a valid integer", "int_type"),
            (("str",), "Input should be a valid string", "string_type"),
        ],
    ),
    (Union[int, list[int]], ["1"], [1]),
    (
        Union[int, list[int]],
        "z",
        [(("int",), *INT_PARSING[1:]), (("list[int]",), "Input should be a valid list", "list_type")],
    ),
    (Union[float, bool], True, True),
    (Union[None, Color], "red", Color.RED),
    (None, None, None),
    (type(None), 1, [((), "Input should be None", "none_required")]),
    (Literal["a"], "a", "a"),
    (Literal["a", "b"], "c", [((), "Input should be 'a' or 'b'", "literal_error")]),
    (Literal["a", "b", 3], 3, 3),
    (Literal["a", "b", 3], 4, [((), "Input should be 'a', 'b' or 3", "literal_error")]),
    (Literal[1], True, [((), "Input should be 1", "literal_error")]),
    (Color, "red", Color.RED),
    (Color, Color.BLUE, Color.BLUE),
    (Color, "green", [((), "Input should be 'red' or 'blue'", "enum")]),
    (Color, [], [((), "Input should be 'red' or 'blue'", "enum")]),
    (Level, 2, Level.HIGH),
    (Level, "1", Level.LOW),
    (list[Color], ["red", "blue"], [Color.RED, Color.BLUE]),
    (Item, {"name": "a"}, Item("a")),
    (Item, {"name": "a", "price": "2", "tags": ["x"]}, Item("a", 2.0, ["x"])),
    (Item, {"name": "a", "extra": 1}, Item("a")),
    (Item, {}, [(("name",), "Field required", "missing")]),
    (
        Item,
        {"name": 1, "price": "x"},
        [
            (("name",), "Input should be a valid string", "string_type"),
            (("price",), "Input should be a valid number, unable to parse string as a number", "float_parsing"),
        ],
    ),
    (Item, "a", [((), "Input should be a dictionary or an instance of Item", "dataclass_type")]),
    (list[Item], [{"name": "a"}, {}], [((1, "name"), "Field required", "missing")]),
    (Optional[Item], None, None),
    (Options, {}, {}),
    (Options, {"depth": "3"}, {"depth": 3}),
    (Options, {"depth": "x"}, [(("depth",), *INT_PARSING[1:])]),
    (Options, 5, [((), "Input should be a valid dictionary", "dict_type")]),
    (Pair, {"left": "1", "right": None}, {"left": 1, "right": None}),
    (Pair, {"left": 1}, [(("right",), "Field required", "missing")]),
    (datetime, "2026-01-02T03:04:05Z", datetime.fromisoformat("2026-01-02T03:04:05+00:00")),
    (datetime, "yesterday", [((), "Input should be a valid datetime", "datetime_parsing")]),
    (date, "2026-01-02", date(2026, 1, 2)),
    (UUID, "12345678123456781234567812345678", UUID("12345678123456781234567812345678")),
    (UUID, "x", [((), "Input should be a valid UUID", "uuid_parsing")]),
    (Decimal, "1.10", Decimal("1.10")),
    (Decimal, 2, Decimal(2)),
    (Annotated[int, "positive"], "3", 3),
    (Any, {"a": [1]}, {"a": [1]}),
    (object, 1, 1),
]


class Conversions(unittest.TestCase):
    def test_values_convert_by_annotation_or_say_why_not(self):
        self.assertGreaterEqual(len(TABLE), 100)
        for annotation, given, expected in TABLE:
            with self.subTest(annotation=annotation, given=given):
                convert = converter(annotation)
                is_problem = (
                    isinstance(expected, list) and expected and isinstance(expected[0], tuple) and len(expected[0]) == 3
                )
                try:
                    got = given if convert is None else convert(given)
                except Invalid as error:
                    self.assertTrue(is_problem, error.problems)
                    self.assertEqual(error.problems, expected)
                else:
                    self.assertEqual(got, expected)
                    self.assertIs(type(got), type(expected))


class InProcess(unittest.TestCase):
    """Requests answered without a worker process."""

    def call(self, routes: dict, method: str, path: str, body=b"", query: str = "", headers=None):
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            headers = headers or [["Content-Type", "application/json"]]
        head = {"method": method, "path": path, "query": query, "headers": headers or []}
        return RouteTable(routes).answer(Work(protocol.REQUEST, 1, head, body))

    def given(self, function, *arguments, method="POST", path="/x", template=None, **named):
        reply = self.call({(method, template or path): function}, method, path, *arguments, **named)
        return json.loads(reply.body) if reply.status == 200 else (reply.status, json.loads(reply.body)["detail"])

    def test_body_query_and_path_bind_by_name_and_convert(self):
        def item(item_id: int, q: str = "none", deep: bool = False, tags: list = []):
            return [item_id, q, deep, tags]

        self.assertEqual(
            self.given(
                item, {"q": "body", "tags": [1]}, path="/items/7", template="/items/{item_id}", query="deep=yes&q=late"
            ),
            [7, "body", True, [1]],
        )
        self.assertEqual(self.given(item, path="/items/8", template="/items/{item_id}"), [8, "none", False, []])

    def test_repeated_query_fields_make_a_list(self):
        def find(tag: list[int], q: str = ""):
            return [tag, q]

        self.assertEqual(self.given(find, method="GET", query="tag=1&tag=2&q=a&q=b"), [[1, 2], "b"])

    def test_path_parameters_are_decoded_and_the_more_fixed_route_wins(self):
        routes = {
            ("GET", "/a/{x}"): lambda x: ["one", x],
            ("GET", "/a/me"): lambda: "me",
            ("GET", "/files/{rest:path}"): lambda rest: rest,
            ("GET", "/{y}/me"): lambda y: ["other", y],
        }
        get = lambda path: json.loads(self.call(routes, "GET", path).body)
        self.assertEqual(get("/a/b%20c%2Fd"), ["one", "b c/d"])
        self.assertEqual(get("/a/me"), "me")
        self.assertEqual(get("/z/me"), ["other", "z"])
        self.assertEqual(get("/files/a/b"), "a/b")

    def test_all_problems_are_told_at_once_as_fastapi_words_them(self):
        def add(item_id: int, text: str, count: int, q: float = 0.0):
            return 1

        status, detail = self.given(add, {"count": "x"}, path="/i/no", template="/i/{item_id}", query="q=z")
        self.assertEqual(status, 422)
        self.assertEqual(
            detail,
            [
                {"loc": ["path", "item_id"], "msg": "Input should be a valid integer, unable to parse string as an integer", "type": "int_parsing"},
                {"loc": ["body", "text"], "msg": "Field required", "type": "missing"},
                {"loc": ["body", "count"], "msg": "Input should be a valid integer, unable to parse string as an integer", "type": "int_parsing"},
                {"loc": ["query", "q"], "msg": "Input should be a valid number, unable to parse string as a number", "type": "float_parsing"},
            ],
        )  # fmt: skip
        self.assertEqual(
            self.given(add, method="GET", path="/i/1", template="/i/{item_id}")[1][0]["loc"], ["query", "text"]
        )

    def test_a_body_that_is_not_json_or_not_an_object_is_refused(self):
        def add(a: int):
            return a

        headers = [["content-type", "application/json"]]
        self.assertEqual(
            self.given(add, b'{"a": }', headers=headers),
            (422, [{"loc": ["body", 6], "msg": "JSON decode error", "type": "json_invalid"}]),
        )
        self.assertEqual(
            self.given(add, b"[" * 100_000, headers=headers),
            (422, [{"loc": ["body", 0], "msg": "JSON decode error", "type": "json_invalid"}]),
        )
        self.assertEqual(self.given(add, [1])[1][0]["type"], "model_attributes_type")

    def test_the_only_dict_or_model_takes_the_whole_body(self):
        def whole(item: Item, dry: bool = False):
            return [item.name, dry]

        self.assertEqual(self.given(whole, {"name": "a"}, query="dry=1"), ["a", True])
        self.assertEqual(self.given(whole, {"item": {"name": "b"}}), ["b", False])
        self.assertEqual(self.given(whole, {"price": 1})[1][0]["loc"], ["body", "name"])
        self.assertEqual(self.given(lambda body: body, {"body": 1}), 1)

        def anything(data: dict):
            return data

        self.assertEqual(self.given(anything, {"x": 1}), {"x": 1})

        def rows(rows: list[int]):
            return rows

        self.assertEqual(self.given(rows, ["1", 2]), [1, 2])

        def raw(data: bytes):
            return len(data)

        self.assertEqual(self.given(raw, b"\0\1\2", headers=[["content-type", "image/png"]]), 3)

    def test_forms_and_files_bind_by_name(self):
        def upload(title: str, file: bytes, count: int = 0, tags: list[str] = []):
            return [title, file.decode(), getattr(file, "filename", None), count, tags]

        body = (
            b'--B\r\nContent-Disposition: form-data; name="title"\r\n\r\nhi\r\n'
            b'--B\r\nContent-Disposition: form-data; name="tags"\r\n\r\na\r\n'
            b'--B\r\nContent-Disposition: form-data; name="tags"\r\n\r\nb\r\n'
            b'--B\r\nContent-Disposition: form-data; name="file"; filename="f.txt"\r\nContent-Type: text/plain\r\n\r\nda\r\nta\r\n--B--\r\n'
        )
        self.assertEqual(
            self.given(upload, body, headers=[["Content-Type", "multipart/form-data; boundary=B"]]),
            ["hi", "da\r\nta", "f.txt", 0, ["a", "b"]],
        )
        form = [["content-type", "application/x-www-form-urlencoded"]]
        self.assertEqual(self.given(upload, b"title=a+b&file=x&count=3", headers=form), ["a b", "x", None, 3, []])
        self.assertEqual(
            self.given(upload, b"no form", headers=[["content-type", "multipart/form-data; boundary=B"]])[0], 422
        )

    def test_string_annotations_and_unknown_ones_work(self):
        namespace: dict = {}
        exec(
            "from __future__ import annotations\ndef f(a: int, b: NotImported, c: int | None = None): return [a, b, c]",
            namespace,
        )
        self.assertEqual(self.given(namespace["f"], {"a": "1", "b": "x", "c": "2"}), [1, "x", 2])

    def test_var_keyword_takes_the_rest(self):
        self.assertEqual(
            self.given(lambda a, **rest: [a, rest], {"a": 1, "b": 2}, query="c=3"), [1, {"c": "3", "b": 2}]
        )

    def test_unknown_paths_and_methods_are_json_errors(self):
        routes = {("GET", "/a"): lambda: 1, ("POST", "/a"): lambda: 2}
        missing = self.call(routes, "GET", "/secret")
        self.assertEqual((missing.status, json.loads(missing.body)["code"]), (404, "NOT_FOUND"))
        wrong = self.call(routes, "DELETE", "/a")
        self.assertEqual(wrong.status, 405)
        self.assertEqual(dict(map(tuple, wrong.headers))["allow"], "GET, HEAD, OPTIONS, POST")
        options = self.call(routes, "OPTIONS", "/a")
        self.assertEqual((options.status, options.body), (204, b""))
        head = self.call(routes, "HEAD", "/a")
        self.assertEqual((head.status, head.body, dict(map(tuple, head.headers))["content-length"]), (200, b"", "1"))
        self.assertEqual(self.call(routes, "GET", "/ping").status, 200)

    def test_return_values_become_replies(self):
        def reply(value, **named):
            made = self.call({("GET", "/"): lambda: value}, "GET", "/", **named)
            return made.status, dict(map(tuple, made.headers)).get("content-type"), made.body

        json_type = "application/json"
        self.assertEqual(reply({"ä": 1}), (200, json_type, '{"ä":1}'.encode()))
        self.assertEqual(reply([1]), (200, json_type, b"[1]"))
        self.assertEqual(reply("text"), (200, json_type, b'"text"'))
        self.assertEqual(reply(None), (200, json_type, b"null"))
        self.assertEqual(reply(b"\1"), (200, "application/octet-stream", b"\1"))
        self.assertEqual(reply(({"a": 1}, 201)), (201, json_type, b'{"a":1}'))
        self.assertEqual(reply(("<p>", 200, {"Content-Type": "text/html"})), (200, "text/html", b"<p>"))
        self.assertEqual(reply((None, 204)), (204, None, b""))
        self.assertEqual(reply((1, 2)), (200, json_type, b"[1,2]"))
        self.assertEqual(reply(svc.Response("hi", 202, {"x-a": "b"})), (202, "text/plain; charset=utf-8", b"hi"))
        self.assertEqual(
            reply(svc.Response({"a": 1}, media_type="application/problem+json")),
            (200, "application/problem+json", b'{"a":1}'),
        )
        self.assertEqual(reply(Item("a"))[2], b'{"name":"a","price":1.0,"tags":[]}')

    def test_a_header_with_a_line_break_is_refused(self):
        with self.assertRaises(ValueError):
            self.call({("GET", "/"): lambda: ("", 200, {"a": "b\r\nc: d"})}, "GET", "/")


ROUTES = {
    "GET /health": "health",
    "POST /add": "add",
    "GET /count": "count",
    "GET /events": "events",
    "GET /fail": "fail",
    "GET /who": "who",
    "GET /wait": "wait",
    "GET /late": "late",
}
SOURCE = """
    import time
    import svc
    from svc import Endpoint
    api = Endpoint(name="hello")
    @api.get("/health")
    def health(): return {"status": "ok"}
    @api.post("/add")
    def add(a: int, b: int = 1): return {"sum": a + b}
    @api.get("/count")
    def count(n: int):
        for i in range(n): yield {"i": i}
    @api.get("/events")
    def events():
        yield "data: 1\\n\\n"
        yield "data: 2\\n\\n"
    @api.get("/fail")
    def fail(): raise RuntimeError("secret detail")
    @api.get("/who")
    def who():
        now = svc.context()
        return [now.method, now.path, now.headers.get("x-key"), now.job_id]
    @api.get("/wait")
    def wait():
        print("begun")
        time.sleep(60)
    @api.get("/late")
    def late():
        yield "a"
        raise RuntimeError("in the middle")
"""


class ThroughAWorker(LauncherTest):
    def lb(self, source=SOURCE, routes=ROUTES, **changes):
        return self.ready(source, routes=routes, **changes)

    def test_requests_are_answered_by_every_way_to_run(self):
        for number, (source, concurrency) in enumerate(
            [
                (SOURCE, 1),
                (SOURCE, 4),
                (SOURCE.replace("def health", "async def health").replace("def add", "async def add"), 4),
            ]
        ):
            with self.subTest(number):
                link = self.lb(
                    source, concurrency=concurrency, endpoint="hello", zygote=f"z{number}", module=f"lb_{number}"
                )
                self.assertEqual(link.fetch(1, "GET", "/health").json, {"status": "ok"})
                self.assertEqual(link.fetch(2, "POST", "/add", {"a": "2"}).json, {"sum": 3})
                self.assertEqual(link.fetch(3, "POST", "/add", {}).head["status"], 422)
                self.assertEqual(
                    link.fetch(4, "GET", "/who", headers=[["X-Key", "k"]]).json, ["GET", "/who", "k", "req-4"]
                )
                self.check_stream(link)
                self.check_failure(link)
                self.check_cancel(link)

    def check_stream(self, link):
        first = link.fetch(10, "GET", "/events")
        self.assertEqual(
            (first.flags, dict(first.head["headers"])["content-type"], first.body),
            (1, "text/event-stream", b"data: 1\n\n"),
        )
        self.assertEqual(link.expect(protocol.BODY, 10).body, b"data: 2\n\n")
        last = link.expect(protocol.BODY, 10)
        self.assertEqual((last.flags, last.body), (0, b""))
        self.assertEqual(
            dict(link.fetch(11, "GET", "/count", query="n=1").head["headers"])["content-type"], "application/x-ndjson"
        )
        empty = link.fetch(12, "GET", "/count", query="n=0")
        self.assertEqual((empty.flags, empty.body), (1, b""))
        self.assertEqual(link.fetch(13, "GET", "/late").body, b"a")
        self.assertEqual(link.expect(protocol.BODY, 13).head, {"failed": True})

    def check_failure(self, link):
        failed = link.fetch(20, "GET", "/fail")
        self.assertEqual((failed.head["status"], failed.json["code"]), (500, "INTERNAL"))
        self.assertNotIn(b"secret", failed.body)
        log = link.expect(protocol.LOG, 20, stream="stderr").body
        while b"secret detail" not in log:
            log += link.expect(protocol.LOG, 20, stream="stderr").body
        self.assertNotRegex(log, b"_runtime|_values")

    def check_cancel(self, link):
        if link.credit.head["slots"] == 1:
            link.request(30, "GET", "/wait")
            link.expect(protocol.LOG, 30)
            link.request(31, "GET", "/health")
            link.send(protocol.CANCEL, 31, {"reason": "disconnected"})
            self.assertEqual(link.expect(protocol.RESULT, 31).head["status"], 499)  # while the first still runs
            link.send(protocol.CANCEL, 30, {"reason": "timeout"})
            self.assertEqual(link.expect(protocol.RESULT, 30).head["status"], 504)
        self.assertEqual(link.fetch(32, "GET", "/health").head["status"], 200)

    def test_a_streamed_request_body_is_put_together(self):
        link = self.lb()
        link.request(1, "POST", "/add", b'{"a":', headers=[["content-type", "application/json"]], flags=1)
        link.send(protocol.BODY, 1, None, b"4", 1)
        link.send(protocol.BODY, 1, None, b"}")
        self.assertEqual(link.expect(protocol.RESULT, 1).json, {"sum": 5})

    def test_requests_do_not_survive_a_break_and_their_functions_are_cancelled(self):
        link = self.lb()
        link.request(1, "GET", "/wait")
        link.expect(protocol.LOG, 1)
        link.close()
        again = self.platform.link(link.worker)
        self.assertEqual(again.hello.head["unacknowledged"], [])
        self.assertEqual(again.fetch(2, "GET", "/health").head["status"], 200)


if __name__ == "__main__":
    unittest.main()
