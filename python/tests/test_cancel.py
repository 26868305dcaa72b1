"""Cancels that land at every moment: each job has one result, and what runs after it is not hit."""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import LauncherTest, protocol

from svc._runtime.http import frames, requests
from svc._runtime.link.connection import Connection
from svc._runtime.link.protocol import FrameReader, encode
from svc._runtime.loader import load_endpoint
from svc._runtime.work import answers, interruption, work, worker
from svc._runtime.work.blocking import BlockingWorker
from svc._runtime.work.interruption import MainThreadInterruption, ThreadInterruption
from svc._runtime.work.threads import ThreadWorker
from svc._runtime.work.work import Work
from svc.context import Cancelled

# Sync code that ends its cancel slowly: a slot is taken as long as its thread is.
LINGERS = """
    import os, time
    class Model:
        def wait(self, gate):
            try:
                print("begun")
                while True: sum(range(100))
            finally:
                while not os.path.exists(gate): time.sleep(0.002)
        def echo(self, n): return n
        # more
"""
MIXED = "async def other(self): return 1"

QUICK = """
    import time
    class Model:
        def value(self, n): return n
        def loop(self, n):
            for _ in range(n % 300): sum(range(20))
            return n
        def stream(self, n):
            for item in range(n % 7): yield item
        def shout(self, n):
            for item in range(n % 5): print(item)
        def fail(self, n): raise ValueError(n)
        # more
"""
WAYS = (("one at a time", 1, ""), ("threads", 3, ""), ("event loop", 3, MIXED))


class Cancel(LauncherTest):
    def model(self, source, concurrency):
        name = f"model-{self.counter}"
        return self.ready(source, "Model", kind="class", endpoint=name, module=name.replace("-", "_"), concurrency=concurrency)

    def test_a_cancelled_sync_method_keeps_its_slot_until_its_thread_has_ended(self):
        for way, concurrency, more in WAYS:
            with self.subTest(way):
                link = self.model(LINGERS.replace("# more", more), concurrency)
                gate = f"{self.directory}/{concurrency}{len(more)}"
                for channel in range(1, concurrency + 1):
                    link.job(channel, {"gate": gate}, method="wait")
                    link.expect(protocol.LOG, channel)
                for channel in range(1, concurrency + 1):
                    link.send(protocol.CANCEL, channel, {"reason": "cancelled"})
                link.send(protocol.PING)
                link.expect(protocol.PONG)
                self.assertEqual(link.seen(protocol.RESULT), [], "no slot is free while the threads are taken")
                open(gate, "w").close()
                for channel in range(1, concurrency + 1):
                    self.assertEqual(link.result(channel).json["error_type"], "Cancelled")
                self.assertEqual(link.run(9, {"n": 5}, method="echo").json, 5)

    def test_a_cancel_at_any_moment_leaves_one_result_for_each_job(self):
        for way, concurrency, more in (*WAYS, ("event loop, one at a time", 1, MIXED)):
            with self.subTest(way):
                link = self.model(QUICK.replace("# more", more), concurrency)
                choose = random.Random(7)
                methods = ["value", "loop", "stream", "shout", "fail"] + (["other"] if more else [])
                for channel in range(1, 201):
                    method = choose.choice(methods)
                    link.job(channel, {} if method == "other" else {"n": choose.randrange(1000)}, method=method)
                    until = time.perf_counter() + choose.random() * 0.001
                    while time.perf_counter() < until:
                        pass
                    link.send(protocol.CANCEL, channel, {"reason": "cancelled"})
                for channel in range(1, 201):
                    link.result(channel)
                self.assertEqual(link.run(999, {"n": 3}, method="value").json, 3)
                self.assertEqual(link.seen(protocol.RESULT), [])


def value():
    return {"n": 1}


def fail():
    raise ValueError("bad")


def clean():
    try:
        print("begun")
        yield 1
        yield 2
    finally:
        print("cleaned")


_TRACED = {module.__file__ for module in (answers, frames, interruption, requests, work, worker)} | {__file__}


class EveryMoment(unittest.TestCase):
    """One worker in this process; a cancel is made to land before each single instruction of a work, one after the other."""

    def setUp(self) -> None:
        streams = sys.stdout, sys.stderr
        self.addCleanup(lambda: (setattr(sys, "stdout", streams[0]), setattr(sys, "stderr", streams[1])))
        server = socket.socket(socket.AF_UNIX)
        self.addCleanup(server.close)
        address = f"\0svc-cancel-{os.getpid()}"
        server.bind(address)
        server.listen(1)
        self.connection = Connection(address, "token", "worker", 1000)

        def welcome() -> None:
            self.platform, _ = server.accept()
            self.platform.sendall(encode(protocol.WELCOME, 0, {"protocol": 1}))
            self.addCleanup(self.platform.close)

        self.connection.open(encode(protocol.CREDIT, 0, {"slots": 1}), welcome)
        self.addCleanup(self.connection.close)
        self.reader = FrameReader()
        self.frames()
        self.channel = 0

    def worker(self, kind, name: str, routes: bool):
        module = sys.modules[__name__].__name__
        function = {"module": module, "name": name, "kind": "function"}
        found = {"GET /run": {"module": module, "name": name}} if routes else {}
        kind_of_endpoint = "load-balanced" if routes else "queue"
        endpoint = load_endpoint(name="e", kind=kind_of_endpoint, functions=[] if routes else [function], routes=found)
        start = {"worker": "w", "endpoint": {"id": "", "name": "e"}, "concurrency": 1}
        worker = kind(start, {} if routes else endpoint.callables(), endpoint.requests(), self.connection)
        worker.capture_output()
        if kind is BlockingWorker:
            worker._reading.acquire()
            worker.interruption.listen()
            self.addCleanup(os.close, worker._wanted_read)
            self.addCleanup(os.close, worker._wanted_write)
        return worker

    def frames(self) -> list:
        found = []
        try:
            while data := self.platform.recv(1 << 20, socket.MSG_DONTWAIT):
                found += self.reader.push(data)
        except BlockingIOError:
            pass
        return found

    def run_with_cancel(self, worker, routes: bool, moment: int) -> bool:
        """False when the work was over before that moment."""
        self.channel += 1
        if routes:
            head = {"id": "r", "method": "GET", "path": "/run", "query": "", "headers": [], "timeoutMs": 1000}
            one = Work(protocol.REQUEST, self.channel, head, b"")
        else:
            worker.dispatch((protocol.JOB, 0, self.channel, json.dumps({"job": "j", "fence": 1}).encode(), b"{}"))
            one = worker.pending.pop()
        lock = getattr(worker.interruption, "_lock", None)
        seen = 0
        landed = False

        def trace(frame, event, _):
            nonlocal seen, landed
            if frame.f_code.co_filename not in _TRACED or landed:
                return None
            frame.f_trace_opcodes = True
            seen += 1
            # Who cancels waits for a lock that is held.
            if seen > moment and not (lock is not None and lock.locked()) and one.channel in worker.running:
                landed = True
                worker._cancel(one.channel, "cancelled")
            return trace

        if isinstance(worker, BlockingWorker):
            sys.settrace(trace)
            try:
                worker._run(one)
            finally:
                sys.settrace(None)
            worker._flush()
            return landed
        worker.pending.append(one)
        failed = []

        def serve() -> None:
            sys.settrace(trace)
            try:
                worker._run(worker._next())
                sys.settrace(None)
                sum(n for n in range(50))  # what came too late would be raised here
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=serve)
        thread.start()
        thread.join()
        self.assertEqual(failed, [])
        return landed

    def check(self, kind, name: str, routes: bool) -> None:
        worker = self.worker(kind, name, routes)
        moment, results = 0, set()
        while self.run_with_cancel(worker, routes, moment):
            frames = [frame for frame in self.frames() if frame[2] == self.channel]
            ends = [
                frame for frame in frames
                if frame[0] in (protocol.RESULT, protocol.BODY) and not frame[1] & protocol.MORE
            ]  # fmt: skip
            heads = [frame for frame in frames if frame[0] == protocol.RESULT]
            self.assertEqual((len(ends), len(heads)), (1, 1), f"cancelled at moment {moment}: {frames}")
            self.assertIs(frames[-1], ends[0])
            self.assertEqual(worker.running, {})
            self.assertIsNone(worker.interruption.here())
            results.add(b'"ok":true' in ends[0][3] or b'"status":200' in heads[0][3])
            moment += 1
        self.assertIn(False, results, "some cancels came in time")
        self.assertGreater(moment, 100)

    def test_of_a_job_one_at_a_time(self):
        for name in ("value", "fail", "clean"):
            with self.subTest(name):
                self.check(BlockingWorker, name, False)

    def test_of_a_job_in_a_thread(self):
        for name in ("value", "fail", "clean"):
            with self.subTest(name):
                self.check(ThreadWorker, name, False)

    def test_of_a_request_one_at_a_time(self):
        for name in ("value", "fail", "clean"):
            with self.subTest(name):
                self.check(BlockingWorker, name, True)

    def test_of_a_request_in_a_thread(self):
        for name in ("value", "fail", "clean"):
            with self.subTest(name):
                self.check(ThreadWorker, name, True)


class Interruptions(unittest.TestCase):
    def test_a_cancel_that_came_before_the_function_ends_it_at_its_first_step(self):
        for kind in (MainThreadInterruption, ThreadInterruption):
            one = Work(protocol.JOB, 1, {}, b"")
            one.cancel_reason = "cancelled"
            value, error = kind().run(one, lambda: self.fail("it must not run"))
            self.assertIsNone(value)
            self.assertIsInstance(error, Cancelled)


if __name__ == "__main__":
    unittest.main()
