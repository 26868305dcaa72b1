"""Calls between endpoints, through real workers: what a worker sends, and what it makes of a call by a peer."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from http_platform import DROP, HttpPlatform, completed, gone, peer
from support import LauncherTest, protocol, wait_until


class PeerTest(LauncherTest):
    def setUp(self) -> None:
        super().setUp()
        self.http = HttpPlatform(self.answer)
        self.addCleanup(self.http.close)
        self.jobs = lambda request: completed(request.json["input"]["x"])

    def ready(self, *arguments, **named):
        named.setdefault("zygote", f"zygote-{self.counter}")
        return super().ready(*arguments, **named)

    def answer(self, request):
        if request.action == "graphql":
            return peer(
                {"infer": "ep-i", "api": "ep-a"}[request.json["variables"]["name"]],
                "queue" if "infer" in request.body.decode() else "lb",
            )
        return self.jobs(request)

    def caller(self, source: str, **changes):
        """A worker of `hello` whose file also declares `infer` and a route of `api`."""
        peers = """
            import asyncio, contextvars, threading, time
            import svc
            from svc import Endpoint, remote
            @Endpoint(name="infer", execution_timeout_ms=30000)
            def infer(x, y=0): return "not here"
            @Endpoint(name="infer-later")
            async def later(x): return "not here"
            api = Endpoint(name="api")
            @api.post("/r")
            def route(x): return "not here"
        """
        import textwrap

        text = textwrap.dedent(peers) + textwrap.dedent(source)
        return self.ready(text, **{"platformUrl": self.http.url, **changes})


class Calling(PeerTest):
    def test_a_worker_asks_with_its_token_and_calls_the_endpoint_directly(self):
        link = self.caller("""
            @Endpoint(name="hello")
            def run(n): return [infer(n), infer(n + 1, y=2)]
        """)
        self.assertEqual(link.run(1, {"n": 5}).json, [5, 6])
        self.assertEqual(link.run(2, {"n": 7}).json, [7, 8])
        lookup, first, *_ = self.http.requests
        self.assertEqual((lookup.path, lookup.json["variables"]), ("/graphql", {"name": "infer"}))
        self.assertEqual(lookup.headers["authorization"], f"Bearer token-{link.worker}")
        self.assertEqual(
            (first.path, first.headers["authorization"]), ("/v2/ep-i/runsync", f"Bearer token-{link.worker}")
        )
        self.assertEqual(len(self.http.seen("graphql")), 1, "kept for later calls")

    def test_the_envelope_names_who_waits_and_until_when(self):
        link = self.caller("""
            @Endpoint(name="hello")
            def run(n):
                return infer(n)
        """)
        link.job(1, {"n": 1, "$svc": {"tagged": True, "hops": ["first"], "timeoutMs": 20_000}}, timeoutMs=60_000)
        link.result(1)
        sent = self.http.seen("runsync")[0].json
        left_ms = sent["input"]["$svc"].pop("timeoutMs")
        self.assertEqual(sent["input"]["$svc"], {"tagged": True, "hops": ["first", "hello"]})
        self.assertTrue(5_000 < sent["policy"]["executionTimeout"] <= left_ms <= 20_000, sent)
        link.run(2, {"n": 1}, timeoutMs=600_000)
        self.assertNotIn("policy", self.http.seen("runsync")[1].json, "never more than the callee's own time")

    def test_threads_and_tasks_carry_it_too(self):
        for concurrency in (1, 3):
            with self.subTest(concurrency=concurrency):
                self.http.requests.clear()
                link = self.caller(
                    """
                    @Endpoint(name="hello")
                    def run():
                        found = []
                        thread = threading.Thread(target=lambda: found.append(infer(1)))
                        thread.start(); thread.join()
                        return found + list(infer.map([2, 3]))
                    """,
                    concurrency=concurrency, module=f"sync{concurrency}", endpoint="hello",
                )  # fmt: skip
                link.job(1, {"$svc": {"tagged": True, "hops": ["first"]}})
                self.assertEqual(link.result(1).json, [1, 2, 3])
                for request in self.http.seen("runsync"):
                    self.assertEqual(request.json["input"]["$svc"]["hops"], ["first", "hello"])
        self.http.requests.clear()
        link = self.caller(
            """
            @Endpoint(name="hello")
            async def run():
                task = asyncio.ensure_future(infer.aio(1))
                return [await task, await asyncio.to_thread(infer, 2), await infer(3)]
            """,
            concurrency=4, module="asynchronous",
        )  # fmt: skip
        for channel in (1, 2):
            link.job(channel, {"$svc": {"tagged": True, "hops": [f"first-{channel}"]}})
        for channel in (1, 2):
            self.assertEqual(link.result(channel).json, [1, 2, 3])
        hops = sorted(request.json["input"]["$svc"]["hops"][0] for request in self.http.seen("runsync"))
        self.assertEqual(hops, ["first-1"] * 3 + ["first-2"] * 3)

    def test_a_call_cycle_is_told_with_its_chain_before_any_request(self):
        link = self.caller("""
            @Endpoint(name="hello")
            def run():
                return infer(1)
        """)
        link.job(1, {"$svc": {"tagged": True, "hops": ["infer", "between"]}})
        failure = link.result(1).json
        self.assertEqual(failure["error_type"], "svc.CallCycle")
        self.assertIn("infer → between → hello → infer", failure["error_message"])
        self.assertEqual(self.http.requests, [])
        link.job(2, {"$svc": {"tagged": True, "hops": ["hello", "x"]}})
        self.assertIn("hello → x → hello", link.result(2).json["error_message"], "the callee looks too")

    def test_no_call_is_made_or_begun_when_no_time_is_left(self):
        link = self.caller("""
            @Endpoint(name="hello")
            def run(wait=0):
                time.sleep(wait)
                return infer(1)
        """)
        link.job(1, {"$svc": {"tagged": True, "timeoutMs": 0}})
        failure = link.result(1).json
        self.assertEqual(
            (failure["error_type"], failure["error_message"]),
            ("svc.JobTimedOut", "the caller's deadline passed before the call began"),
        )
        link.job(2, {"wait": 0.2, "$svc": {"tagged": True, "timeoutMs": 100}})
        self.assertEqual(link.result(2).json["error_type"], "svc.JobTimedOut")
        self.assertEqual(self.http.requests, [])

    def test_a_callee_that_is_not_done_by_the_deadline_is_cancelled(self):
        answers = {
            "runsync": completed(None)[1] | {"status": "IN_PROGRESS"},
            "cancel": {"id": "sync-1", "status": "CANCELLED"},
        }

        def answer(request):
            if request.action in ("runsync", "status-sync"):
                time.sleep(2)
            return 200, answers["cancel" if request.action == "cancel" else "runsync"]

        self.jobs = answer
        link = self.caller("""
            @Endpoint(name="hello")
            def run():
                return infer(1)
        """)
        link.job(1, {"$svc": {"tagged": True, "timeoutMs": 1_500}})
        self.assertEqual(link.result(1).json["error_type"], "svc.JobTimedOut")
        self.assertEqual(self.http.seen("cancel")[0].path, "/v2/ep-i/cancel/sync-1")

    def test_a_cancel_of_the_caller_reaches_the_callee(self):
        for concurrency, kind in ((1, "def"), (2, "def"), (2, "async def")):
            with self.subTest(concurrency=concurrency, kind=kind):
                self.http.requests.clear()

                def answer(request):
                    if request.action == "runsync":
                        time.sleep(5)
                    return 200, {"id": "sync-1", "status": "IN_PROGRESS" if request.action == "run" else "CANCELLED"}

                self.jobs = answer
                wait = "await " if kind == "async def" else ""
                link = self.caller(
                    f'@Endpoint(name="hello")\n{kind} run():\n    return {wait}infer(1)\n',
                    concurrency=concurrency, module=f"cancelled_{concurrency}_{kind.replace(' ', '')}", endpoint="hello",
                )  # fmt: skip
                link.job(1)
                wait_until(lambda: self.http.seen("runsync"), what="the call is made")
                link.send(protocol.CANCEL, 1, {"reason": "cancelled"})
                self.assertEqual(link.result(1).json["error_type"], "Cancelled")
                wait_until(lambda: self.http.seen("cancel"), what="the callee's job is cancelled")

    def test_a_cancel_ends_a_call_in_a_thread_whatever_it_waits_for(self):
        self.check_cancels(self.http, "an answer", "the rest of a body", "a chunk", "room to send")

    @unittest.skipUnless(shutil.which("openssl"), "needs openssl, which makes a certificate")
    def test_so_it_does_over_tls_where_a_server_sends_more_than_answers(self):
        context, authority = self.certificate()
        http = HttpPlatform(self.answer, context)
        self.addCleanup(http.close)
        self.check_cancels(http, "an answer", "the rest of a body", "a chunk", body_env={"SSL_CERT_FILE": authority})

    def check_cancels(self, http: HttpPlatform, *whats: str, **changes) -> None:
        over, waits = threading.Event(), threading.Event()
        self.addCleanup(over.set)
        deaf = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(deaf.close)

        def silence(first: bytes):
            yield first
            waits.set()
            over.wait(60)

        def answer(request):
            if request.action == "runsync":
                waits.set()
                over.wait(60)
            if request.action in ("run", "cancel"):
                return 200, {"id": "job-1", "status": "IN_QUEUE"}
            return silence(b"event: chunk\nid: 1\ndata: {\"output\": 1}\n\n")

        self.jobs = answer
        source = f"""
            slow = svc.EndpointClient(id="ep-s")
            deaf = svc.EndpointClient(id="ep-d", url="http://127.0.0.1:{deaf.getsockname()[1]}", api_key="k")
            @Endpoint(name="hello")
            def run(what):
                if what == "an answer": return infer(1)
                if what == "the rest of a body": return slow.get("/")
                if what == "a chunk": return list(infer.spawn(1).stream())
                return deaf.post("/", bytes(64 << 20))
        """
        link = self.caller(source, concurrency=2, platformUrl=http.url, **changes)
        for channel, what in enumerate(whats, 1):
            with self.subTest(waits_for=what):
                waits.clear()
                link.job(channel, {"what": what})
                if what == "room to send":
                    self.addCleanup(deaf.accept()[0].close)
                else:
                    self.assertTrue(waits.wait(60))
                link.send(protocol.CANCEL, channel, {"reason": "cancelled"})
                self.assertEqual(link.result(channel).json["error_type"], "Cancelled")

    def certificate(self) -> tuple[ssl.SSLContext, str]:
        """A server's, for 127.0.0.1, and the file that makes a client trust it."""
        made, key = (os.path.join(self.directory, name) for name in ("certificate.pem", "key.pem"))
        request = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {key} -out {made} -subj /CN=test"
        subprocess.run([*request.split(), "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made, key)
        return context, made

    def test_an_own_function_is_a_plain_call_with_any_arguments(self):
        link = self.caller("""
            own = Endpoint(name="hello")
            @own
            def run(n, keep=None):
                if n == 0:
                    return keep is KEPT
                return run(n - 1, keep=KEPT) is True and list(run.map([0, 0]))
            KEPT = object()
            @own.get("/x")
            def other(): return "other"
        """)
        self.assertEqual(link.run(1, {"n": 1}).json, [False, False])
        self.assertEqual(self.http.requests, [])

    def test_remote_of_the_own_class_is_the_worker_s_instance(self):
        link = self.caller(
            """
            @Endpoint(name="hello")
            class Model:
                def __init__(self): self.calls = 0
                def first(self): return remote(Model).second()
                def second(self):
                    self.calls += 1
                    return self.calls
            """,
            function="Model", kind="class",
        )  # fmt: skip
        self.assertEqual([link.run(channel, method="first").json for channel in (1, 2)], [1, 2])

    MODEL = """
            class Base:
                def __init__(self, size=1): self.size = size
            @Endpoint(name="infer")
            class Model(Base):
                def predict(self, x): return f"here, size {self.size}"
            AT_TOP = Model()
    """

    def test_a_class_of_another_endpoint_goes_there_and_local_makes_one_here(self):
        link = self.caller(
            self.MODEL
            + """
            @Endpoint(name="hello")
            def run():
                with_arguments = ""
                try: Model(2)
                except TypeError as error: with_arguments = str(error)
                class Own(Model): pass
                return [AT_TOP.predict(3), Model().predict(x=4), Model.local(2).predict(5), Own(6).predict(7), with_arguments]
            """
        )
        *results, with_arguments = link.run(1).json
        self.assertEqual(results, [3, 4, "here, size 2", "here, size 6"])
        self.assertEqual([one.json["method"] for one in self.http.seen("runsync")], ["predict", "predict"])
        self.assertEqual(
            with_arguments,
            "Model(…) with arguments in another endpoint: the workers of endpoint 'infer' make theirs without. "
            "Model() calls them; Model.local(…) makes one here",
        )

    def test_a_class_in_its_own_endpoint_is_an_instance(self):
        link = self.caller(self.MODEL, function="Model", kind="class", endpoint="infer")
        self.assertEqual(link.run(1, {"x": 1}, method="predict").json, "here, size 1")
        self.assertRegex(link.run(2, {}, method="local").json["error_message"], "no method 'local'; there are predict$")
        self.assertEqual(self.http.requests, [])

    def test_an_endpoint_that_has_gone_is_looked_up_again(self):
        ids = iter(["ep-1", "ep-2"])
        self.http.answers = lambda request: (
            peer(next(ids)) if request.action == "graphql" else gone() if "ep-1" in request.path else completed(5)
        )
        link = self.caller('@Endpoint(name="hello")\ndef run():\n    return infer(1)\n')
        self.assertEqual(link.run(1).json, 5)

    def test_an_endpoint_that_is_not_there_says_what_to_run(self):
        self.http.answers = lambda request: (200, {"data": {"peer": None}})
        link = self.caller('@Endpoint(name="hello")\ndef run():\n    return infer(1)\n')
        failure = link.run(1).json
        self.assertEqual(failure["error_type"], "svc.NotDeployed")
        self.assertEqual(
            failure["error_message"],
            "endpoint 'infer' is not deployed in environment 'production' of app 'shop': run svc deploy",
        )

    def test_under_svc_run_it_says_how_an_endpoint_becomes_live(self):
        self.http.answers = lambda request: (200, {"data": {"peer": None}})
        link = self.caller('@Endpoint(name="hello")\ndef run():\n    return infer(1)\n', environment="live-me-1234")
        self.assertIn("not live yet under svc run: call it once there", link.run(1).json["error_message"])

    def test_a_remote_failure_is_one_line_and_its_traceback_stands_in_the_caller_s(self):
        self.jobs = lambda request: (
            200,
            {
                "id": "j",
                "status": "FAILED",
                "error": json.dumps(
                    {"error_type": "ValueError", "error_message": "bad", "error_traceback": "Traceback of infer"}
                ),
            },
        )
        link = self.caller('@Endpoint(name="hello")\ndef run():\n    return infer(1)\n')
        failure = link.run(1).json
        self.assertEqual(
            (failure["error_type"], failure["error_message"]),
            ("svc.RemoteError", "endpoint 'infer' failed: ValueError: bad"),
        )
        self.assertIn("Traceback of infer", failure["error_traceback"])
        self.assertIn("return infer(1)", failure["error_traceback"])
        self.assertNotIn("_calling", failure["error_traceback"])

    def test_a_dropped_connection_is_survived_in_a_worker_too(self):
        answers = iter([DROP, completed(5)])
        self.jobs = lambda request: next(answers)
        link = self.caller('@Endpoint(name="hello")\ndef run():\n    return infer(1)\n')
        self.assertEqual(link.run(1).json, 5)

    def test_a_live_endpoint_knows_itself_by_its_declared_name(self):
        source = '@Endpoint(name="hello")\ndef run(n=1):\n    return run(0) if n else infer(7)\n'
        # The handler file is that of the build; only the platform uses the longer name.
        handler = self.handler("hello", "queue", [{"module": "worker_file", "name": "run", "kind": "function"}])
        link = self.caller(source, handler=handler, endpoint="live-hello", environment="live-me-1234")
        self.assertEqual(link.run(1).json, 7)
        self.assertEqual(self.http.seen("runsync")[0].json["input"]["$svc"]["hops"], ["hello"])

    def test_a_load_balanced_caller_hands_on_what_its_request_brought(self):
        link = self.caller(
            """
            web = Endpoint(name="web")
            @web.post("/go")
            def go(n: int): return [infer(n), route(n)]
            """,
            routes={"POST /go": "go"}, endpoint="web",
        )  # fmt: skip
        self.jobs = lambda request: (
            completed(1) if request.action == "runsync" else (200, {"ok": True}, {"x-svc-tagged": "value"})
        )
        headers = [["content-type", "application/json"], ["X-Svc-Hops", "first"], ["X-Svc-Timeout-Ms", "20000"]]
        self.assertEqual(link.fetch(1, "POST", "/go", b'{"n":1}', headers=headers).json, [1, {"ok": True}])
        job, request = self.http.seen("runsync")[0], self.http.seen("lb")[0]
        envelope = job.json["input"]["$svc"]
        sent = {name: value for name, value in request.headers.items() if name.startswith("x-svc")}
        for left_ms in (envelope.pop("timeoutMs"), int(sent.pop("x-svc-timeout-ms"))):
            self.assertTrue(5_000 < left_ms <= 20_000, left_ms)
        self.assertEqual(envelope, {"tagged": True, "hops": ["first", "web"]})
        self.assertEqual(sent, {"x-svc-tagged": "1", "x-svc-hops": "first,web"})

    def test_a_client_by_id_or_name_uses_the_worker_s_token_and_carries_the_same(self):
        link = self.caller("""
            by_id, by_name = Endpoint(id="ep-x"), svc.EndpointClient(name="infer")
            @Endpoint(name="hello")
            def run(): return [by_id.runsync({"x": {1}}) == {1}, by_name.runsync({"x": 2}), by_id.get("/a")]
        """)
        self.jobs = lambda request: (200, "got") if request.action == "lb" else completed(request.json["input"]["x"])
        link.job(1, {"$svc": {"tagged": True, "hops": ["first"]}})
        self.assertEqual(link.result(1).json, [True, 2, "got"])
        jobs, request = self.http.seen("runsync"), self.http.seen("lb")[0]
        self.assertEqual([job.path for job in jobs], ["/v2/ep-x/runsync", "/v2/ep-i/runsync"])
        for job in jobs:
            self.assertEqual(job.headers["authorization"], f"Bearer token-{link.worker}")
            self.assertEqual(job.json["input"]["$svc"]["hops"], ["first", "hello"])
        self.assertEqual((request.path, request.headers["x-svc-hops"]), ("/lb/ep-x/a", "first,hello"))

    def test_what_a_call_needs_is_imported_before_the_fork_where_the_code_calls(self):
        is_there = "'svc._calling.dispatch' in __import__('sys').modules"
        for name, line, expected in (("caller", "helper(1)", True), ("callee", "None", False)):
            link = self.caller(f"""
                def helper(x): return infer(x)
                @Endpoint(name="hello")
                def run():
                    before = {is_there}
                    if not before or {expected}:
                        return before
                    {line}
            """, module=name)  # fmt: skip
            self.assertIs(link.run(1).json, expected)


class Called(PeerTest):
    TYPES = """
        import dataclasses, datetime, enum
        class Color(enum.Enum): RED = "red"
        @dataclasses.dataclass
        class Point:
            x: int
            color: Color
    """

    def tagged(self, link, channel: int, **given):
        link.job(channel, {**given, "$svc": {"tagged": True}})
        return link.result(channel)

    def test_arguments_are_rebuilt_from_the_function_s_own_annotations(self):
        for kind, concurrency in (("def", 1), ("def", 2), ("async def", 1)):
            link = self.ready(
                self.TYPES + f"""
        {kind} run(p: Point, ps: list[Point] = [], other=None):
            return [repr(p), repr(ps), other, type(other).__name__]
                """,
                module=f"m{concurrency}{kind[0]}", concurrency=concurrency,
            )  # fmt: skip
            point = {"$svc": ["object", "Point", {"x": 1, "color": {"$svc": ["enum", "Color", "red"]}}]}
            result = self.tagged(link, 1, p=point, ps=[point], other=point).json
            shown = "Point(x=1, color=<Color.RED: 'red'>)"
            self.assertEqual(result, [shown, f"[{shown}]", {"x": 1, "color": "red"}, "dict"])

    def test_results_and_chunks_keep_their_types_for_peers_and_are_plain_for_everybody_else(self):
        for text in (
            "def run():\n    return [(1, b'x')]\n",
            "def run():\n    yield (1, b'x')\n",
            "async def run():\n    yield (1, b'x')\n",
        ):
            link = self.ready(text, module=f"m{self.counter}", endpoint=f"e{self.counter}")
            self.assertEqual(self.tagged(link, 1).json, [{"$svc": ["tuple", [1, {"$svc": ["bytes", "eA=="]}]]}])
            if "yield" in text:
                self.assertEqual(
                    link.expect(protocol.CHUNK, 1).json, {"$svc": ["tuple", [1, {"$svc": ["bytes", "eA=="]}]]}
                )
            self.assertEqual(link.run(2).json, [[1, "eA=="]])

    def test_the_reserved_argument_is_never_seen_by_the_function(self):
        link = self.ready("def run(**rest):\n    return rest\n")
        self.assertEqual(self.tagged(link, 1, a=1).json, {"a": 1})
        self.assertIn("reserved", link.run(2, {"$svc": 1}).json["error_message"])
        self.assertIn("cannot be read", self.tagged(link, 3, a={"$svc": ["nope"]}).json["error_message"])

    def test_a_result_that_cannot_be_sent_names_its_place(self):
        link = self.ready("def run():\n    return {'a': [1, object()]}\n")
        for frame in (self.tagged(link, 1), link.run(2)):
            self.assertIn('result["a"][1]: a object is not JSON', frame.json["error_message"])

    def test_routes_answer_peers_with_types_lines_and_tracebacks(self):
        link = self.ready(
            self.TYPES + """
        def point(p: Point): return (p, {1})
        def raw(): return b"raw"
        def parts(n: int):
            for i in range(n): yield (i,)
            raise KeyError("end")
        async def fine():
            yield 1
        def boom(): raise ValueError("bad")
        def missing(): return {"detail": "no"}, 404
            """,
            routes={"POST /point": "point", "GET /raw": "raw", "POST /parts": "parts", "GET /fine": "fine", "GET /boom": "boom", "GET /missing": "missing"},
        )  # fmt: skip
        headers = [["content-type", "application/json"], ["x-svc-tagged", "1"]]
        point = {"$svc": ["object", "Point", {"x": 1, "color": {"$svc": ["enum", "Color", "red"]}}]}

        def fetch(channel, method, path, body=b""):
            frame = link.fetch(channel, method, path, body, headers=headers)
            return frame, dict(frame.head["headers"])

        frame, found = fetch(1, "POST", "/point", json.dumps({"p": point}).encode())
        self.assertEqual(frame.json, {"$svc": ["tuple", [point, {"$svc": ["set", [1]]}]]})
        self.assertEqual(found["x-svc-tagged"], "value")
        frame, found = fetch(2, "GET", "/raw")
        self.assertEqual((frame.body, found["x-svc-tagged"]), (b"raw", "bytes"))
        frame, found = fetch(3, "POST", "/parts", b'{"n":1}')
        self.assertEqual((frame.json, found["x-svc-tagged"]), ({"$svc": ["tuple", [0]]}, "lines"))
        self.assertEqual(link.expect(protocol.BODY, 3).json["$svc"][1]["error_type"], "KeyError")
        frame, found = fetch(4, "GET", "/fine")
        self.assertEqual((frame.json, link.expect(protocol.BODY, 4).json), (1, {"$svc": ["end"]}))
        frame, found = fetch(5, "GET", "/boom")
        self.assertEqual(
            (frame.head["status"], frame.json["error_message"], found["x-svc-tagged"]), (500, "bad", "error")
        )
        self.assertIn("in boom", frame.json["error_traceback"])
        self.assertEqual(fetch(6, "GET", "/missing")[0].head["status"], 404)
        plain = link.fetch(7, "GET", "/boom")
        self.assertNotIn("bad", plain.body.decode(), "others get no traceback")

    def test_a_route_refuses_a_cycle_and_a_passed_deadline(self):
        link = self.ready("def go(): return 1\n", routes={"GET /go": "go"}, endpoint="web")
        for channel, (name, value, error) in enumerate(
            (("x-svc-hops", "web,b", "svc.CallCycle"), ("x-svc-timeout-ms", "0", "svc.JobTimedOut")), 1
        ):
            frame = link.fetch(channel, "GET", "/go", headers=[["x-svc-tagged", "1"], [name, value]])
            self.assertEqual(frame.json["error_type"], error)


@unittest.skipUnless(sys.platform == "linux" and shutil.which("cc"), "needs Linux and a C compiler: only the workers' clock is set")
class AClockThatIsSet(PeerTest):
    def setUp(self) -> None:
        made = tempfile.mkdtemp(prefix="svc-test-")
        self.addCleanup(shutil.rmtree, made)
        library, offset = os.path.join(made, "clock.so"), os.path.join(made, "offset")
        source = Path(__file__).parents[2] / "test/e2e/clock.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        Path(offset).write_bytes(bytes(8))
        self.offset = open(offset, "r+b", buffering=0)
        self.addCleanup(self.offset.close)
        self.python = os.path.join(made, "python")
        Path(self.python).write_text(f'#!/bin/sh\nexec env LD_PRELOAD={library} SVC_TEST_CLOCK={offset} {sys.executable} "$@"\n')
        os.chmod(self.python, 0o755)
        super().setUp()

    def set_clock(self, seconds: int) -> None:
        self.offset.seek(0)
        self.offset.write(seconds.to_bytes(8, "little", signed=True))

    def test_what_is_left_of_a_job_s_time_stays_what_it_was_and_so_it_goes_on_calling(self):
        link = self.caller("""
            @Endpoint(name="hello")
            def run():
                before = time.time()
                svc.progress("looks")
                while abs(time.time() - before) < 1_800: time.sleep(0.01)
                now = svc.context()
                return [round((time.time() - before) / 3600), infer(1), route(2), now.remaining_s, now.deadline - time.time()]
        """, python=self.python)  # fmt: skip
        self.jobs = lambda request: (
            completed(1) if request.action == "runsync" else (200, 2, {"x-svc-tagged": "value"})
        )
        for channel, hours in enumerate((1, -1), 1):
            with self.subTest(hours=hours):
                self.http.requests.clear()
                link.job(channel, timeoutMs=600_000)
                link.expect(protocol.PROGRESS, channel)
                self.set_clock(3600 if hours == 1 else 0)
                step, job, request, *left = link.result(channel).json
                self.assertEqual([step, job, request], [hours, 1, 2])
                sent = self.http.seen("runsync")[0].json["input"]["$svc"]["timeoutMs"] / 1000
                for seconds in (*left, sent, int(self.http.seen("lb")[0].headers["x-svc-timeout-ms"]) / 1000):
                    self.assertTrue(300 < seconds <= 600, seconds)


if __name__ == "__main__":
    unittest.main()
