"""Streams of load-balanced requests: the window of an answer, uploads, ASGI applications, WebSocket frames."""

from __future__ import annotations

import os
import struct
import sys
import unittest
from collections import deque

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import LauncherTest, protocol

from svc._runtime.http.websocket_frames import BINARY, PING, TEXT, FrameReader, Violation, encode_frame
from svc._runtime.limits import STREAM_WINDOW_BYTES, UPLOAD_WINDOW_BYTES, WEBSOCKET_MESSAGE_MAX_BYTES
from svc._runtime.work.upload import Upload
from svc.context import Cancelled

SYNC = """
    import svc
    from typing import Iterator
    api = svc.Endpoint(name="hello")
    @api.get("/endless")
    def endless():
        try:
            while True: yield b"x" * 1000
        finally: print("ended")
    @api.get("/large")
    def large():
        yield b"x" * 300_000
    @api.post("/sum")
    def total(parts: Iterator[bytes], more: int = 0):
        print("begun")
        return {"size": sum(len(part) for part in parts), "more": more}
"""
ASYNC = SYNC.replace("def endless", "async def endless").replace("def large", "async def large")
ROUTES = {"GET /endless": "endless", "GET /large": "large", "POST /sum": "total"}

APPLICATION = """
    import svc
    api = svc.Endpoint(name="hello")
    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            %s
        raise RuntimeError("no request is expected")
    api.asgi(app)
"""
FAILS_POLITELY = 'return await send({"type": "lifespan.startup.failed", "message": "no model here"})'
FAILS_RUDELY = 'raise ValueError("no model here")'

WAITS = """
    import svc
    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            print("down")
            return await send({"type": "lifespan.shutdown.complete"})
        await receive()
        print("asked")
        assert (await receive())["type"] == "http.disconnect"
        print("left")
    svc.Endpoint(name="hello").asgi(app)
"""

WAYS = (("one at a time", SYNC, 1), ("threads", SYNC, 3), ("event loop", ASYNC, 3))


class Streams(LauncherTest):
    def lb(self, source, concurrency):
        # An endpoint name of its own for each: a zygote serves one source.
        name = f"hello-{self.counter}"
        module = f"worker_{self.counter}"
        return self.ready(
            source.replace("hello", name), routes=ROUTES, endpoint=name, module=module, concurrency=concurrency
        )

    def test_an_answer_runs_one_window_ahead_of_its_caller_and_no_further(self):
        for way, source, concurrency in WAYS:
            with self.subTest(way):
                link = self.lb(source, concurrency)
                link.request(1, "GET", "/endless")
                size = len(link.expect(protocol.RESULT, 1).body)
                while size < STREAM_WINDOW_BYTES:
                    size += len(link.expect(protocol.BODY, 1).body)
                with self.assertRaises(AssertionError):
                    link.expect(protocol.BODY, 1, timeout=0.2)
                link.send(protocol.WINDOW, 1, {"bytes": 5000})
                more = 0
                while size + more < STREAM_WINDOW_BYTES + 5000:
                    more += len(link.expect(protocol.BODY, 1).body)
                with self.assertRaises(AssertionError):
                    link.expect(protocol.BODY, 1, timeout=0.2)
                link.send(protocol.CANCEL, 1, {"reason": "disconnected"})
                self.assertTrue(link.expect(protocol.BODY, 1).head["failed"])
                self.assertEqual(link.expect(protocol.LOG).body, b"ended\n")

    def test_one_large_part_keeps_the_window_too(self):
        for way, source, concurrency in WAYS:
            with self.subTest(way):
                link = self.lb(source, concurrency)
                link.request(1, "GET", "/large")
                size = len(link.expect(protocol.RESULT, 1).body)
                with self.assertRaises(AssertionError):
                    link.expect(protocol.BODY, 1, timeout=0.2)
                self.assertEqual(size, STREAM_WINDOW_BYTES)
                told, more = 0, True
                while more:
                    if size > told:
                        link.send(protocol.WINDOW, 1, {"bytes": size - told})
                        told = size
                    frame = link.expect(protocol.BODY, 1)
                    size += len(frame.body)
                    more = frame.flags & protocol.MORE
                self.assertEqual(size, 300_000)

    def test_the_platform_hears_how_much_of_an_upload_was_taken(self):
        part = b"x" * (UPLOAD_WINDOW_BYTES // 2)
        for way, source, concurrency in WAYS:
            with self.subTest(way):
                link = self.lb(source, concurrency)
                link.request(1, "POST", "/sum", flags=protocol.MORE)
                for _ in range(3):
                    link.send(protocol.BODY, 1, None, part, protocol.MORE)
                    self.assertEqual(link.expect(protocol.WINDOW, 1).head, {"bytes": len(part)})
                link.send(protocol.BODY, 1)
                self.assertEqual(link.expect(protocol.RESULT, 1).json["size"], 3 * len(part))

    def test_an_upload_reaches_the_function_before_it_ends(self):
        for way, source, concurrency in WAYS:
            with self.subTest(way):
                link = self.lb(source, concurrency)
                link.request(1, "POST", "/sum", b"abc", query="more=2", flags=protocol.MORE)
                link.expect(protocol.LOG, 1)
                link.send(protocol.BODY, 1, None, b"de", protocol.MORE)
                link.send(protocol.BODY, 1)
                self.assertEqual(link.expect(protocol.RESULT, 1).json, {"size": 5, "more": 2})

    def test_a_request_that_is_still_arriving_is_answered_before_a_drained_worker_leaves(self):
        for way, prefix, concurrency in (("blocking", "", 1), ("threads", "", 2), ("event loop", "async ", 1)):
            with self.subTest(way):
                source = f"{prefix}def run(text: str):\n    return {{'text': text}}\n"
                name = f"arriving-{self.counter}"
                link = self.ready(source, routes={"POST /run": "run"}, concurrency=concurrency, endpoint=name,
                                  module=f"arriving_{self.counter}")  # fmt: skip
                json_body = [["content-type", "application/json"]]
                link.request(1, "POST", "/run", b'{"text":', headers=json_body, flags=protocol.MORE)
                link.send(protocol.DRAIN, 0, {"graceMs": 5000})
                link.send(protocol.PING)
                link.expect(protocol.PONG)
                link.send(protocol.BODY, 1, None, b'"whole"}')
                self.assertEqual(link.expect(protocol.RESULT, 1).json, {"text": "whole"})
                link.expect(protocol.GOODBYE)

    def test_an_application_that_cannot_start_fails_the_boot_with_its_message(self):
        for failure in (FAILS_POLITELY, FAILS_RUDELY):
            name = f"hello-{self.counter}"
            source = (APPLICATION % failure).replace("hello", name)
            worker = self.start(source, routes={"ANY /": "app"}, endpoint=name, module=f"worker_{self.counter}")
            link = self.platform.link(worker)
            self.assertIn("no model here", link.expect(protocol.BOOT_FAILED).head["error_message"])


    def test_a_drained_application_hears_of_its_shutdown_after_its_last_request(self):
        link = self.ready(WAITS, routes={"ANY /": "app"}, concurrency=2)
        link.request(1, "GET", "/x")
        self.assertEqual(link.expect(protocol.LOG).body, b"asked\n")
        link.send(protocol.DRAIN, 0, {"graceMs": 5000})
        link.send(protocol.CANCEL, 1, {"reason": "disconnected"})
        self.assertEqual(link.expect(protocol.LOG).body, b"left\n")
        self.assertEqual(link.expect(protocol.LOG).body, b"down\n")
        link.expect(protocol.GOODBYE)


class Uploads(unittest.TestCase):
    def test_parts_come_in_order_and_a_break_is_no_end(self):
        upload = Upload(b"a", True)
        upload.put(b"b", True)
        self.assertEqual([next(upload), next(upload)], [b"a", b"b"])
        upload.break_off("the caller went away")
        self.assertRaises(Cancelled, next, upload)
        self.assertEqual(list(Upload(b"whole")), [b"whole"])
        self.assertEqual(list(Upload()), [])

    def test_the_last_part_that_comes_between_two_looks_is_not_lost(self):
        class Parts(deque):
            def __len__(self):
                there = super().__len__()
                if not there and upload._more:
                    upload.put(b"last", False)  # by the thread that reads the link
                return there

            def __bool__(self):  # Python 3.10 asks a deque for no length
                return len(self) > 0

        upload = Upload(b"", True)
        upload._parts = Parts()
        self.assertEqual(list(upload), [b"last"])


def masked(opcode: int, payload: bytes, final: bool = True) -> bytes:
    mask = b"\x01\x02\x03\x04"
    size = len(payload)
    length = (
        bytes([0x80 | size]) if size < 126
        else b"\xfe" + struct.pack(">H", size) if size < 65536
        else b"\xff" + struct.pack(">Q", size)
    )  # fmt: skip
    covered = bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))
    return bytes([(0x80 if final else 0) | opcode]) + length + mask + covered


class WebSocketFrames(unittest.TestCase):
    def test_messages_of_every_length_arrive_whole_however_they_are_cut(self):
        for size in (0, 1, 125, 126, 65535, 65536):
            payload = os.urandom(size)
            data = masked(BINARY, payload)
            reader = FrameReader()
            for start in range(0, len(data), 4097):
                self.assertIsNone(reader.next())
                reader.push(data[start : start + 4097])
            self.assertEqual(reader.next(), (BINARY, payload))
            self.assertIsNone(reader.next())

    def test_fragments_are_joined_and_control_frames_may_stand_between_them(self):
        reader = FrameReader()
        reader.push(masked(TEXT, b"he", False) + masked(PING, b"!") + masked(0, b"llo") + masked(TEXT, b"x"))
        self.assertEqual([reader.next() for _ in range(4)], [(PING, b"!"), (TEXT, b"hello"), (TEXT, b"x"), None])

    def test_what_breaks_the_protocol_is_named_with_its_code(self):
        huge = b"\x82\xff" + struct.pack(">Q", WEBSOCKET_MESSAGE_MAX_BYTES + 1)
        for code, data in (
            (1002, encode_frame(TEXT, b"not masked")),
            (1002, b"\xf1\x80\x01\x02\x03\x04"),
            (1002, masked(3, b"")),
            (1002, masked(0, b"no beginning")),
            (1002, masked(TEXT, b"a", False) + masked(TEXT, b"b")),
            (1002, masked(PING, b"", False)),
            (1009, huge),
        ):
            reader = FrameReader()
            reader.push(data)
            with self.assertRaises(Violation) as caught:
                while reader.next() is not None:
                    pass
            self.assertEqual(caught.exception.code, code)


if __name__ == "__main__":
    unittest.main()
