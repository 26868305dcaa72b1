"""Calls from a script: where they go, what they send, and what becomes of answers, breaks and time-outs."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from time import monotonic
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support
from http_platform import DROP, HttpPlatform, app, completed, failed, gone, waiting

import svc
from svc import Endpoint
from svc import this_worker
from svc._calling import ask, connections, discovery, settings
from svc._calling.limits import MAP_AHEAD


@dataclasses.dataclass
class Point:
    x: int


@Endpoint(name="infer")
def infer(x, scale: int = 1, *, at: datetime.date | None = None) -> Point:
    raise AssertionError("runs elsewhere")


@Endpoint(name="later")
async def later(x: int) -> int:
    raise AssertionError("runs elsewhere")


@Endpoint(name="count")
def count(n: int):
    yield from range(n)


@Endpoint(name="model")
class Model:
    def predict(self, text: str, *, top: int = 1) -> float:
        return float(len(text))

    def _hidden(self):
        pass


api = Endpoint(name="api")


@api.get("/items/{item_id}/{rest:path}")
def item(item_id: int, rest: str, q: list[str] | None = None, on: datetime.date | None = None) -> dict:
    return {}


@api.post("/points")
def points(points: list[Point]) -> list[Point]:
    return points


@api.post("/lines")
def lines(n: int):
    yield n


class CallingTest(unittest.TestCase):
    """A platform for scripts, and no settings but its address."""

    endpoints = [("ep-1", "infer", "queue"), ("ep-2", "later", "queue"), ("ep-3", "count", "queue"), ("ep-4", "model", "queue"),
                 ("ep-5", "api", "load-balanced")]  # fmt: skip

    def setUp(self) -> None:
        self.platform = HttpPlatform(self.answer)
        self.addCleanup(self.platform.close)
        self.addCleanup(svc.configure)
        self.addCleanup(discovery._known.clear)
        svc.configure(app="shop", url=self.platform.url, api_key="key-1")
        self.cancels = False
        self.jobs = lambda request: completed(request.json["input"]["x"])

    def answer(self, request):
        if request.action == "graphql":
            return app(*self.endpoints, url=self.platform.url)
        if request.action == "cancel" and self.cancels:
            return 200, {"id": "sync-1", "status": "CANCELLED"}
        return self.jobs(request)


    def script(self, code: str) -> subprocess.Popen[str]:
        """Another process that calls this platform."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(support.SOURCE),
            "PLATFORM_URL": self.platform.url,
            "PLATFORM_API_KEY": "k",
            "SVC_APP": "shop",
        }
        script = subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(script.wait)
        self.addCleanup(script.kill)
        return script


class Arguments(CallingTest):
    def test_they_are_bound_by_the_local_signature_and_sent_by_name(self):
        infer(1, 2, at=datetime.date(2024, 1, 2))
        sent = self.platform.seen("runsync")[0]
        tagged_date = {"$svc": ["date", "2024-01-02"]}
        self.assertEqual(sent.json, {"input": {"x": 1, "scale": 2, "at": tagged_date, "$svc": {"tagged": True}}})
        self.assertEqual(sent.headers["authorization"], "Bearer key-1")
        self.assertEqual(sent.path, "/v2/ep-1/runsync")

    def test_wrong_ones_are_a_type_error_before_any_request(self):
        for call in (
            lambda: infer(), lambda: infer(1, 2, 3), lambda: infer(1, scael=2), lambda: item(1), lambda: later(),
            lambda: count(), lambda: infer.spawn(), lambda: svc.remote(Model).predict(), lambda: infer.aio(),
        ):  # fmt: skip
            with self.assertRaises(TypeError):
                call()
        with self.assertRaisesRegex(TypeError, r"infer\(x, scale: .*\).*: got an unexpected keyword argument 'scael'"):
            infer(1, scael=2)
        self.assertEqual(self.platform.requests, [])

    def test_what_cannot_be_sent_names_the_argument_and_the_place_before_any_request(self):
        with self.assertRaisesRegex(
            svc.NotSendable, r'infer\(\): the argument cannot be sent: x\["a"\]\[0\]: a object is not JSON'
        ):
            infer({"a": [object()]})
        self.assertTrue(issubclass(svc.NotSendable, TypeError))
        with self.assertRaisesRegex(svc.NotSendable, "'q' cannot be sent: a dict cannot stand in a path or query"):
            item(1, "a", q={})
        self.assertEqual(self.platform.requests, [])

    def test_a_method_of_a_class_is_called_through_remote(self):
        self.jobs = lambda request: completed(1.5)
        self.assertEqual(svc.remote(Model).predict("a", top=2), 1.5)
        sent = self.platform.seen("runsync")[0].json
        self.assertEqual((sent["method"], sent["input"]["text"], sent["input"]["top"]), ("predict", "a", 2))
        self.assertEqual(Model().predict("abc"), 3.0)
        for name in ("_hidden", "nope"):
            with self.assertRaisesRegex(AttributeError, "has no public method"):
                getattr(svc.remote(Model), name)
        with self.assertRaisesRegex(TypeError, "no class that an Endpoint declares"):
            svc.remote(Point)

    def test_a_route_gets_path_query_and_body(self):
        self.jobs = lambda request: (200, {"ok": True})
        item(7, "a b/c", q=["x", "y&z"], on=datetime.date(2024, 1, 2))
        points([Point(1)])
        get, post = self.platform.seen("lb")
        self.assertEqual((get.method, get.path), ("GET", "/lb/ep-5/items/7/a%20b/c"))
        self.assertEqual(get.query, {"q": "y&z", "on": "2024-01-02"})
        self.assertEqual(get.headers["x-svc-tagged"], "1")
        self.assertEqual(post.json, {"points": [{"$svc": ["object", "Point", {"x": 1}]}]})

    def test_local_runs_here(self):
        with self.assertRaisesRegex(AssertionError, "runs elsewhere"):
            infer.local(1)
        self.assertEqual(list(count.local(2)), [0, 1])


class Results(CallingTest):
    def test_the_result_is_rebuilt_from_the_return_annotation(self):
        self.jobs = lambda request: completed({"$svc": ["object", "Point", {"x": 5}]})
        self.assertEqual(infer(1), Point(5))
        self.jobs = lambda request: (200, [{"$svc": ["object", "Point", {"x": 5}]}], {"x-svc-tagged": "value"})
        self.assertEqual(points([]), [Point(5)])

    def test_an_exception_carries_type_message_and_the_remote_traceback(self):
        failure = {
            "error_type": "ValueError",
            "error_message": "bad x",
            "error_traceback": "Traceback …\nValueError: bad x\n",
        }
        self.jobs = lambda request: failed("FAILED", failure)
        with self.assertRaises(svc.RemoteError) as caught:
            infer(1)
        error = caught.exception
        self.assertEqual((error.error_type, error.error_message, error.job_id), ("ValueError", "bad x", "sync-1"))
        self.assertEqual(
            str(error),
            "endpoint 'infer' failed: ValueError: bad x\n\n"
            "Remote traceback (endpoint 'infer', job sync-1):\nTraceback …\nValueError: bad x",
        )
        self.jobs = lambda request: (500, failure, {"x-svc-tagged": "error"})
        with self.assertRaisesRegex(svc.RemoteError, "(?s)'api' failed: ValueError: bad x.*Remote traceback"):
            points([])

    def test_time_out_and_cancel_have_exceptions_of_their_own(self):
        for status, kind in (("TIMED_OUT", svc.JobTimedOut), ("CANCELLED", svc.JobCancelled)):
            self.jobs = lambda request, status=status: failed(status)
            with self.assertRaises(kind):
                infer(1)
        self.jobs = lambda request: (504, {"error": "late", "code": "REQUEST_TIMEOUT"})
        with self.assertRaises(svc.JobTimedOut):
            points([])

    def test_a_returned_error_and_a_refusal_say_what_they_say(self):
        self.jobs = lambda request: (200, {**failed("FAILED")[1], "error": "no such user"})
        with self.assertRaisesRegex(svc.RemoteError, "^endpoint 'infer' failed: no such user$"):
            infer(1)
        self.jobs = lambda request: (401, {"error": "The API key is not valid.", "code": "WRONG_KEY"})
        with self.assertRaises(svc.PlatformError) as caught:
            infer(1)
        self.assertEqual((caught.exception.status, caught.exception.code), (401, "WRONG_KEY"))
        self.jobs = lambda request: (422, {"detail": [{"loc": ["body"], "msg": "no"}]})
        with self.assertRaisesRegex(svc.RemoteError, "HTTP 422.*detail"):
            points([])

    def test_every_error_of_a_call_is_a_call_error(self):
        for name in (
            "RemoteError",
            "JobTimedOut",
            "JobCancelled",
            "JobNotFound",
            "NotDeployed",
            "CallCycle",
            "NotSendable",
            "PlatformError",
        ):
            self.assertTrue(issubclass(getattr(svc, name), svc.CallError))
            self.assertEqual(getattr(svc, name).__module__, "svc")


class Waiting(CallingTest):
    def test_a_long_job_is_followed_by_long_polls_without_a_pause(self):
        answers = iter([waiting(), waiting(), completed(3)])
        self.jobs = lambda request: next(answers)
        with mock.patch.object(connections.Patience, "pause", side_effect=AssertionError("it paused")):
            self.assertEqual(infer(1), 3)
        polls = self.platform.seen("status-sync")
        self.assertEqual([poll.path for poll in polls], ["/v2/ep-1/status-sync/sync-1"] * 2)
        self.assertEqual(polls[0].query, {"wait": "60000"})

    def test_dropped_connections_and_a_restart_are_survived_with_one_idempotency_key(self):
        answers = iter(
            [
                DROP,
                (503, {"error": "stops", "code": "SHUTTING_DOWN"}),
                (502, b"bad gateway", {}),
                waiting(),
                DROP,
                completed(4),
            ]
        )
        self.jobs = lambda request: next(answers)
        self.assertEqual(infer(1), 4)
        keys = [request.headers["idempotency-key"] for request in self.platform.seen("runsync")]
        self.assertEqual((len(keys), len(set(keys))), (4, 1))
        infer_again = iter([completed(5)])
        self.jobs = lambda request: next(infer_again)
        infer(1)
        self.assertNotIn(self.platform.seen("runsync")[-1].headers["idempotency-key"], keys)

    def test_a_platform_that_told_where_the_endpoint_is_is_waited_for_also_by_the_first_call(self):
        answers = iter([DROP, DROP, completed(4)])
        self.jobs = lambda request: next(answers)
        with mock.patch.object(ask, "RETRY_NEVER_REACHED_S", 0.0):
            self.assertEqual(infer(1), 4)

    def test_a_full_queue_is_waited_for_as_it_asks(self):
        answers = iter([(429, {"error": "full", "code": "QUEUE_FULL"}, {"Retry-After": "0"}), completed(1)])
        self.jobs = lambda request: next(answers)
        self.assertEqual(infer(1), 1)

    def test_a_request_that_may_have_arrived_is_not_sent_twice(self):
        self.jobs = lambda request: DROP
        with self.assertRaisesRegex(svc.PlatformError, "broke off"):
            points([])
        self.assertEqual(len(self.platform.seen("lb")), 1)
        answers = iter([DROP, (200, {})])
        self.jobs = lambda request: next(answers)
        self.assertEqual(item(1, "a"), {})

    def test_a_platform_that_was_never_there_is_told_soon(self):
        free = socket.create_server(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        svc.configure(app="shop", url=f"http://127.0.0.1:{port}", api_key="k")
        with self.assertRaisesRegex(
            svc.PlatformError, r"http://127.0.0.1:\d+ cannot be reached: Connection refused.*svc platform status"
        ):
            infer(1)

    def test_an_endpoint_that_has_gone_is_looked_up_once_more(self):
        def answer(request):
            if request.action == "graphql":
                return app(
                    (["ep-1", "ep-9"][len(self.platform.seen("graphql")) - 1], "infer", "queue"), url=self.platform.url
                )
            return gone() if "ep-1/" in request.path and len(self.platform.requests) > 3 else completed(1)

        self.platform.answers = answer
        infer(1)
        infer(2)
        self.assertEqual(len(self.platform.seen("graphql")), 1, "kept for 300 s")
        infer(3)
        self.assertEqual(len(self.platform.seen("graphql")), 2)
        self.assertEqual(
            [request.path for request in self.platform.seen("runsync")][-2:], ["/v2/ep-1/runsync", "/v2/ep-9/runsync"]
        )

    def test_a_platform_of_another_version_is_told_once(self):
        def answer(request):
            if request.action == "graphql":
                return (*app(("ep-1", "infer", "queue"), url=self.platform.url), {"X-Svc-Version": self.version})
            return completed(1)

        self.platform.answers = answer
        for app_name, version, told in (("a", svc.__version__, 0), ("b", "99.1.0", 1), ("c", "99.1.0", 0)):
            self.version = version
            svc.configure(app=app_name, url=self.platform.url, api_key="k")
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                infer(1)
            self.assertEqual(len(caught), told, app_name)
            for warning in caught:
                self.assertRegex(str(warning.message), r"has svc \S+, and the platform at \S+ is svc 99\.1\.0: .*svc init")

    def test_a_lookup_is_kept_for_300_seconds(self):
        infer(1)
        with mock.patch.object(discovery, "monotonic", lambda: monotonic() + 299):
            infer(1)
        self.assertEqual(len(self.platform.seen("graphql")), 1)
        with mock.patch.object(discovery, "monotonic", lambda: monotonic() + 301):
            infer(1)
        self.assertEqual(len(self.platform.seen("graphql")), 2)

    def test_who_stops_waiting_cancels_the_job(self):
        arrived = threading.Event()

        def answer(request):
            if request.action == "runsync":
                arrived.set()
                threading.Event().wait(20)
            if request.action == "run":
                return 200, {"id": "sync-1", "status": "IN_PROGRESS"}
            return 200, {"id": "sync-1", "status": "CANCELLED"}

        self.jobs = answer

        async def give_up():
            task = asyncio.ensure_future(infer.aio(1))
            await asyncio.to_thread(arrived.wait, 60)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(give_up())
        support.wait_until(lambda: self.platform.seen("cancel"), what="the job is cancelled")
        self.assertEqual(self.platform.seen("cancel")[0].path, "/v2/ep-1/cancel/sync-1")
        first, again = self.platform.seen("runsync")[0], self.platform.seen("run")[0]
        self.assertEqual(
            first.headers["idempotency-key"], again.headers["idempotency-key"], "the job is found by its key"
        )

    def test_ctrl_c_cancels_the_job_that_is_waited_for(self):
        arrived = threading.Event()

        def answer(request):
            if request.action == "runsync":
                arrived.set()
                threading.Event().wait(20)
            return 200, {"id": "sync-1", "status": "CANCELLED"}

        self.jobs = answer
        script = self.script("from svc import Endpoint\n@Endpoint(name='infer')\ndef infer(x): pass\ninfer(1)\n")
        self.assertTrue(arrived.wait(60))
        script.send_signal(signal.SIGINT)
        self.assertIn("KeyboardInterrupt", script.communicate(timeout=60)[1])
        self.assertEqual(self.platform.seen("cancel")[0].path, "/v2/ep-1/cancel/sync-1")


class InAnEventLoop(CallingTest):
    def test_an_async_function_is_awaited_and_a_plain_one_becomes_awaitable(self):
        async def main():
            return [await later(1), await infer(2), await infer.aio(3), await svc.remote(Model).predict.aio("x")]

        self.jobs = lambda request: completed(request.json["input"].get("x", "method"))
        self.assertEqual(asyncio.run(main()), [1, 2, 3, "method"])
        self.assertEqual(infer(4), 4, "outside of a loop the result itself")

    def test_many_calls_wait_at_the_same_time(self):
        everybody = threading.Barrier(20)

        def answer(request):
            everybody.wait(60)
            return completed(request.json["input"]["x"])

        self.jobs = answer

        async def main():
            return await asyncio.gather(*[later(n) for n in range(20)])

        self.assertEqual(asyncio.run(main()), list(range(20)))

    @unittest.skipUnless(sys.platform == "linux", "limits of memory as Linux has them")
    def test_where_the_machine_has_no_more_threads_those_there_are_do_the_work(self):
        script = self.script("""
import asyncio, resource, threading
from svc import Endpoint

@Endpoint(name="infer")
def infer(x): pass

@Endpoint(name="later")
async def later(x): pass

async def all_later():
    return await asyncio.gather(*[later(n) for n in range(20)], return_exceptions=True)

def threads_that_fit(count):
    taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + 32 * MB + count * 512 * MB, resource.RLIM_INFINITY))

MB = 1 << 20
infer(0), asyncio.run(asyncio.sleep(0))
threading.stack_size(500 * MB)
threads_that_fit(0)
try:
    list(infer.map(range(20), concurrency=8))
except RuntimeError as error:
    print(error)
print({str(error) for error in asyncio.run(all_later())})
threads_that_fit(2)
print(list(infer.map(range(20), concurrency=8)) == list(range(20)))
threads_that_fit(2)
print(asyncio.run(all_later()) == list(range(20)))
""")
        out, errors = script.communicate(timeout=60)
        none = "can't start new thread"
        self.assertEqual(out.splitlines(), [none, str({none}), "True", "True"], errors)


class Streams(CallingTest):
    # Of the last chunk: they rise, with gaps.
    number = 0

    def events(self, *parts, end='event: status\ndata: {"status":"COMPLETED"}\n\n'):
        yield b": still waiting\n\n"
        for part in parts:
            self.number += 7
            yield f"id: {self.number}\ndata: {json.dumps({'output': part})}\n\n".encode()
        yield end.encode()

    def start(self, request):
        return 200, {"id": "j-1", "status": "IN_QUEUE"}

    def test_a_generator_is_an_iterator_of_its_chunks(self):
        self.jobs = lambda request: (
            self.start(request) if request.action == "run" else self.events(1, {"$svc": ["bytes", "eA=="]})
        )
        self.assertEqual(list(count(2)), [1, b"x"])

        async def main():
            return [chunk async for chunk in count(2)]

        self.assertEqual(asyncio.run(main()), [1, b"x"])

    def test_nothing_is_sent_before_the_first_chunk_is_asked_for(self):
        count(2)
        self.assertEqual(self.platform.requests, [])

    def test_a_stream_that_breaks_off_goes_on_after_the_last_chunk_it_had(self):
        parts = [self.events(0, 1, end=""), self.events(end=""), DROP, self.events(2, {"$svc": ["bytes", "eA=="]})]
        self.jobs = lambda request: self.start(request) if request.action == "run" else parts.pop(0)
        self.assertEqual(list(count(4)), [0, 1, 2, b"x"])
        self.assertEqual(
            [request.headers["last-event-id"] for request in self.platform.seen("stream")], ["0", "14", "14", "14"]
        )

    def test_what_the_generator_raises_is_raised_where_its_next_chunk_would_be(self):
        def answer(request):
            if request.action == "run":
                return self.start(request)
            if request.action == "stream":
                return self.events(0, end='event: status\ndata: {"status":"FAILED"}\n\n')
            return failed("FAILED", {"error_type": "KeyError", "error_message": "k", "error_traceback": ""}, "j-1")

        self.jobs = answer
        chunks = count(4)
        self.assertEqual(next(chunks), 0)
        with self.assertRaisesRegex(svc.RemoteError, "KeyError: k"):
            next(chunks)

    def test_leaving_early_cancels_the_job(self):
        self.jobs = lambda request: {
            "run": self.start(request), "cancel": (200, {"id": "j-1", "status": "CANCELLED"}),
        }.get(request.action) or self.events(0, 1)  # fmt: skip
        with count(4) as chunks:
            self.assertEqual(next(chunks), 0)
        self.assertEqual(self.platform.seen("cancel")[0].path, "/v2/ep-3/cancel/j-1")

    def test_a_route_streams_lines_and_one_that_breaks_off_is_no_end(self):
        for end, outcome in (
            ('{"$svc":["end"]}', None),
            ("", svc.PlatformError),
            ('{"$svc":["error",{"error_type":"E","error_message":"m"}]}', svc.RemoteError),
        ):
            body = ('1\n{"$svc":["bytes","eA=="]}\n' + (end + "\n" if end else "")).encode()
            self.jobs = lambda request, body=body: (200, body, {"x-svc-tagged": "lines"})
            found = []
            try:
                for chunk in lines(2):
                    found.append(chunk)
            except svc.CallError as error:
                self.assertIs(type(error), outcome)
            else:
                self.assertIsNone(outcome)
            self.assertEqual(found, [1, b"x"])


class Many(CallingTest):
    def test_map_keeps_the_order_and_bounds_what_is_under_way(self):
        state = threading.Condition()
        under_way, most = 0, 0

        def answer(request):
            nonlocal under_way, most
            with state:
                under_way += 1
                most = max(most, under_way)
                state.notify_all()
                state.wait_for(lambda: most >= 8, 5)
            x = request.json["input"]["x"]
            with state:
                under_way -= 1
            return completed(x)

        self.jobs = answer
        self.assertEqual(list(infer.map(range(100), concurrency=8)), list(range(100)))
        self.assertEqual(most, 8)

    def test_of_a_million_items_few_are_taken_ahead_of_the_results(self):
        for ordered in (True, False):
            taken = itertools.count()
            items = (next(taken) for _ in range(1_000_000))
            results = infer.map(items, concurrency=2, ordered=ordered)
            found = [next(results) for _ in range(100)]
            results.close()
            self.assertLess(next(taken), 100 + 2 * MAP_AHEAD + 1)
            self.assertEqual(found if ordered else len(set(found)), list(range(100)) if ordered else 100)

            async def main():
                taken = itertools.count()
                items = ((next(taken),) for _ in range(1_000_000))
                results = infer.starmap_aio(items, concurrency=2, ordered=ordered)
                found = [await anext(results) for _ in range(100)]
                await results.aclose()
                return len(found), next(taken)

            count, ahead = asyncio.run(main())
            self.assertEqual(count, 100)
            self.assertLess(ahead, 100 + 2 * MAP_AHEAD + 1)

    def test_without_order_results_come_as_they_are_there_and_a_slow_iterable_holds_none_up(self):
        others, second = threading.Event(), threading.Event()

        def answer(request):
            x = request.json["input"]["x"]
            if x == 0:
                others.wait(60)
            return completed(x)

        self.jobs = answer
        found = []
        for x in infer.map(range(5), concurrency=2, ordered=False):
            found.append(x)
            if len(found) == 4:
                others.set()
        self.assertEqual((sorted(found), found[4]), ([0, 1, 2, 3, 4], 0))
        others.clear()

        async def main():
            found = []
            async for x in infer.map_aio(range(5), concurrency=2, ordered=False):
                found.append(x)
                if len(found) == 4:
                    others.set()
            return found

        found = asyncio.run(main())
        self.assertEqual((sorted(found), found[4]), ([0, 1, 2, 3, 4], 0))

        def items():
            yield 1
            second.wait(60)
            yield 2

        for ordered in (True, False):
            second.clear()
            results = infer.map(items(), ordered=ordered)
            self.assertEqual(next(results), 1)
            second.set()
            self.assertEqual(list(results), [2])

    def test_who_leaves_a_map_cancels_what_is_under_way_also_by_ctrl_c(self):
        three = threading.Semaphore(0)

        def answer(request):
            if request.action == "runsync":
                three.release()
                threading.Event().wait(20)
            return 200, {"id": f"sync-{request.headers.get('idempotency-key')}", "status": "CANCELLED"}

        self.jobs = answer
        declared = "from svc import Endpoint\n@Endpoint(name='infer')\ndef infer(x): pass\n"
        ways = (
            "for _ in infer.map(iter(int, 1), concurrency=3): pass",
            "import asyncio\nasync def main():\n  async for _ in infer.map_aio(range(3)): pass\nasyncio.run(main())",
        )
        environment = {"PYTHONPATH": str(support.SOURCE), "PLATFORM_URL": self.platform.url, "PLATFORM_API_KEY": "k", "SVC_APP": "shop"}
        for number, way in enumerate(ways, 1):
            script = subprocess.Popen([sys.executable, "-c", declared + way], env=environment, stderr=subprocess.DEVNULL)
            for _ in range(3):
                self.assertTrue(three.acquire(timeout=60))
            script.send_signal(signal.SIGINT)
            self.assertNotEqual(script.wait(60), 0)
            cancelled = {request.path for request in self.platform.seen("cancel")}
            self.assertEqual(len(cancelled), 3 * number, way)

    def test_the_first_failure_is_raised_in_its_place_or_stands_there(self):
        def answer(request):
            x = request.json["input"]["x"]
            return completed(x) if x != 2 else failed("FAILED", {"error_type": "E", "error_message": "two"})

        self.jobs = answer
        results = infer.map(range(5), concurrency=1)
        self.assertEqual([next(results), next(results)], [0, 1])
        with self.assertRaisesRegex(svc.RemoteError, "two"):
            next(results)
        found = list(infer.map(range(4), return_exceptions=True))
        self.assertEqual((found[:2], found[3]), ([0, 1], 3))
        self.assertIsInstance(found[2], svc.RemoteError)
        self.assertEqual(list(infer.starmap([(1, 5), (3, 6)])), [1, 3])

        async def main():
            return [one async for one in infer.map_aio(range(4), return_exceptions=True)]

        self.assertEqual([str(one) for one in asyncio.run(main())], [str(one) for one in found])

    def test_an_error_of_the_items_themselves_is_raised_in_its_place(self):
        def items():
            yield 1
            raise OSError("no more")

        results = infer.map(items())
        self.assertEqual(next(results), 1)
        with self.assertRaisesRegex(OSError, "no more"):
            next(results)


class Jobs(CallingTest):
    def test_spawn_gives_a_job_that_can_be_followed_and_cancelled(self):
        answers = {
            "run": [(200, {"id": "j-1", "status": "IN_QUEUE"})],
            "status": [waiting("j-1")],
            "status-sync": [waiting("j-1"), completed({"$svc": ["object", "Point", {"x": 5}]}, "j-1")],
            "cancel": [(200, {"id": "j-1", "status": "COMPLETED"})],
        }
        self.jobs = lambda request: answers[request.action].pop(0)
        job = infer.spawn(1)
        self.assertIsInstance(job, svc.Job)
        self.assertEqual((job.id, job.endpoint, job.output, job.error), ("j-1", "infer", None, None))
        self.assertEqual(job.status(), "IN_QUEUE")
        self.assertEqual(job.wait(), Point(5))
        self.assertEqual((job.output, job.error, job.cancel()), (Point(5), None, "COMPLETED"))
        with self.assertRaisesRegex(TypeError, "load-balanced endpoint, which has no jobs"):
            points.spawn([])

    def test_wait_gives_up_after_its_timeout_and_the_job_goes_on(self):
        self.jobs = lambda request: (
            (200, {"id": "j-1", "status": "IN_QUEUE"}) if request.action == "run" else waiting("j-1")
        )
        job = infer.spawn(1)
        with self.assertRaisesRegex(TimeoutError, "job j-1 is not done after 0.01 s; it goes on"):
            job.wait(timeout=0.01)
        self.assertEqual(self.platform.seen("cancel"), [])

    def test_a_failed_job_raises_and_tells_its_error(self):
        answers = [(200, {"id": "j-1", "status": "IN_QUEUE"}), failed("CANCELLED", id="j-1")]
        self.jobs = lambda request: answers.pop(0)
        job = infer.spawn(1)

        async def main():
            await job

        with self.assertRaises(svc.JobCancelled):
            asyncio.run(main())
        self.assertIsInstance(job.error, svc.JobCancelled)
        self.jobs = lambda request: (404, {"error": "There is no job j-1.", "code": "JOB_NOT_FOUND"})
        with self.assertRaises(svc.JobNotFound):
            job.status()


class Client(CallingTest):
    def test_an_endpoint_by_id_runs_jobs(self):
        client = Endpoint(id="ep-7")
        answers = {"health": [(200, {"jobs": {}})], "run": [(200, {"id": "j-1", "status": "IN_QUEUE"})], "cancel": [(200, {"id": "j", "status": "CANCELLED"})],
                   "status": [completed(2, "j-2")], "runsync": [completed({"$svc": ["set", [1]]})], "stream": [iter([b'data: {"output":5}\n\nevent: status\ndata: {"status":"COMPLETED"}\n\n'])]}  # fmt: skip
        self.jobs = lambda request: answers[request.action].pop(0)
        self.assertEqual(client.health(), {"jobs": {}})
        job = client.run(
            {"x": {1}},
            webhook="https://example.com",
            execution_timeout_ms=6000,
            low_priority=True,
            idempotency_key="mine",
        )
        sent = self.platform.seen("run")[0]
        self.assertEqual(sent.headers["idempotency-key"], "mine")
        self.assertEqual(sent.json["policy"], {"executionTimeout": 6000, "lowPriority": True})
        self.assertEqual(sent.json["input"]["x"], {"$svc": ["set", [1]]})
        self.assertEqual(sent.json["webhook"], "https://example.com")
        self.assertEqual(client.runsync({"x": 1}), {1})
        self.assertEqual(
            (client.status("j-2"), client.cancel("j"), list(client.stream("j"))), ("COMPLETED", "CANCELLED", [5])
        )
        self.assertEqual(job.id, "j-1")
        self.assertEqual(self.platform.seen("graphql"), [], "an id needs no lookup")
        with self.assertRaisesRegex(TypeError, "by name"):
            client.runsync([1])

    def test_an_endpoint_by_id_sends_requests(self):
        client = Endpoint(id="ep-7")
        self.jobs = lambda request: (
            200,
            {"method": request.method, "path": request.path, "query": request.query, "body": request.body.decode()},
        )
        self.assertEqual(
            client.get("/a", params={"q": [1, True]}),
            {"method": "GET", "path": "/lb/ep-7/a", "query": {"q": "true"}, "body": ""},
        )
        for name in ("post", "put", "patch"):
            found = getattr(client, name)("/a", {"x": datetime.date(2024, 1, 2)}, headers={"X-A": "b"})
            self.assertEqual((found["method"], found["body"]), (name.upper(), '{"x":"2024-01-02"}'))
        self.assertEqual(client.delete("/a")["method"], "DELETE")
        self.assertEqual(client.post("/a", b"raw")["body"], "raw")

        async def main():
            return [await client.get_aio("/b"), await client.post_aio("/b", {}), await client.health_aio()]

        self.assertEqual([one["path"] for one in asyncio.run(main())], ["/lb/ep-7/b"] * 2 + ["/v2/ep-7/health"])
        for answer, expected in (
            ((200, b"text", {"Content-Type": "text/plain"}), "text"),
            ((200, b"\xff", {}), b"\xff"),
            ((204, b"", {}), None),
        ):
            self.jobs = lambda request, answer=answer: answer
            self.assertEqual(client.get("/"), expected)
        self.jobs = lambda request: (418, {"detail": "teapot"})
        with self.assertRaises(svc.RemoteError) as caught:
            client.get("/")
        self.assertEqual(caught.exception.status, 418)

    def test_an_endpoint_by_name_is_looked_up(self):
        client = svc.EndpointClient(name="infer", app="other", environment="production")
        self.assertEqual(client.runsync({"x": 4}), 4)
        self.assertEqual(self.platform.seen("graphql")[0].json["variables"], {"name": "other"})


class Where(CallingTest):
    """The order of settings is that of the command-line tool."""

    def setUp(self) -> None:
        super().setUp()
        svc.configure()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = os.path.join(directory.name, "My Shop!")
        os.mkdir(self.directory)
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.directory)
        environment = {
            "SVC_CONFIG_DIR": os.path.join(directory.name, "config"),
            "SVC_DATA_DIR": os.path.join(directory.name, "data"),
        }
        for path in environment.values():
            os.mkdir(path)
        self.config, self.data = environment.values()
        cleared = {name: value for name, value in os.environ.items() if not name.startswith(("SVC_", "PLATFORM_"))}
        patch = mock.patch.dict(os.environ, {**cleared, **environment}, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def write(self, path: str, text) -> None:
        with open(path, "w") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))

    def found(self) -> tuple:
        platform = settings.platform()
        return platform.url, platform.key, settings.app_name(), settings.environment_name()

    def test_from_the_running_platform_up_to_configure(self):
        with self.assertRaisesRegex(svc.PlatformError, "no platform is set.*svc platform start"):
            settings.platform()
        self.write(os.path.join(self.data, "platform.json"), {"pid": os.getpid(), "url": "http://embedded"})
        with self.assertRaisesRegex(svc.PlatformError, "no API key for http://embedded.*svc login"):
            settings.platform()
        stored = {"embedded": {self.data: {"url": "http://old", "apiKey": "embedded-key"}}}
        self.write(os.path.join(self.config, "credentials.json"), stored)
        self.assertEqual(self.found(), ("http://embedded", "embedded-key", "my-shop", "production"))
        stored["login"] = {"url": "http://login", "apiKey": "login-key"}
        self.write(os.path.join(self.config, "credentials.json"), stored)
        self.assertEqual(self.found()[:2], ("http://login", "login-key"))
        self.write(
            ".env",
            "# a comment\nexport PLATFORM_URL='http://dotenv/'\nPLATFORM_API_KEY=\"dotenv-key\" # it\nSVC_APP=dot\nSVC_ENV = staging\n",
        )
        self.assertEqual(self.found(), ("http://dotenv", "dotenv-key", "dot", "staging"))
        os.environ.update(PLATFORM_URL="http://variable", PLATFORM_API_KEY="variable-key", SVC_APP="var", SVC_ENV="dev")
        self.assertEqual(self.found(), ("http://variable", "variable-key", "var", "dev"))
        svc.configure(url="http://given/", api_key="given-key", app="given", environment="test")
        self.assertEqual(self.found(), ("http://given", "given-key", "given", "test"))

    def test_a_key_is_only_sent_to_the_platform_it_belongs_to(self):
        self.write(
            os.path.join(self.config, "credentials.json"), {"login": {"url": "http://login", "apiKey": "login-key"}}
        )
        os.environ["PLATFORM_URL"] = "http://other"
        with self.assertRaisesRegex(svc.PlatformError, "no API key for http://other"):
            settings.platform()

    def test_what_is_not_deployed_says_what_to_run(self):
        os.environ.update(PLATFORM_URL=self.platform.url, PLATFORM_API_KEY="k")
        self.platform.answers = lambda request: (200, {"data": {"app": None}})
        with self.assertRaisesRegex(
            svc.NotDeployed,
            r"endpoint 'infer' is not deployed: there is no app 'my-shop' on http.*Run svc deploy in the project's directory.*SVC_APP",
        ):
            infer(1)
        self.platform.answers = lambda request: app(environment="staging")
        with self.assertRaisesRegex(
            svc.NotDeployed,
            r"app 'my-shop' has no environment 'production'. Run svc deploy, or name another environment \(staging\)",
        ):
            infer(1)
        os.environ["SVC_ENV"] = "staging"
        with self.assertRaisesRegex(
            svc.NotDeployed,
            r"environment 'staging' of app 'my-shop' has no endpoint of that name. Run svc deploy --env staging",
        ):
            infer(1)
        self.platform.answers = lambda request: (401, {"error": "The API key is not valid.", "code": "WRONG_KEY"})
        with self.assertRaisesRegex(svc.PlatformError, "The API key is not valid"):
            infer(1)

    def test_nothing_is_called_while_a_worker_imports_its_code(self):
        self.addCleanup(setattr, this_worker, "LOADING", "")
        this_worker.loading("caller")
        with self.assertRaisesRegex(svc.CallError, "while the file of endpoint 'caller' is being imported"):
            infer(1)


if __name__ == "__main__":
    unittest.main()
