"""Workers and launcher outlive the platform: they reconnect and hand over what they finished, once."""

from __future__ import annotations

import os
import select
import socket
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import WAIT_S, LauncherTest, alive, protocol, wait_until

from svc._runtime.link.platform_link import PlatformLink
from svc._runtime.link.protocol import FrameReader, encode


class Reconnect(LauncherTest):
    def test_a_job_that_runs_while_the_platform_is_away_is_run_once_and_its_result_delivered_once(self):
        link = self.ready(
            """
            import os, time
            def run(gate, count):
                with open(count, "a") as file: file.write("x")
                while not os.path.exists(gate): time.sleep(0.002)
                return "done"
            """
        )
        gate, count = self.directory + "/gate", self.directory + "/count"
        link.job(7, {"gate": gate, "count": count})
        wait_until(lambda: os.path.exists(count))
        self.platform.vanish()
        self.platform.listen()
        again = self.platform.link(link.worker)
        (held,) = again.hello.head["unacknowledged"]
        self.assertGreaterEqual(held.pop("heldMs"), 0)
        self.assertEqual(held, {"channel": 7, "job": "job-7", "fence": 107})
        again.expect(protocol.CREDIT)
        open(gate, "w").close()
        self.assertEqual(again.result(7).json, "done")
        self.assertEqual(again.run(8, {"gate": gate, "count": count}).json, "done")
        self.assertEqual(os.path.getsize(count), 2)
        self.assertEqual(again.seen(protocol.RESULT), [])

    def test_what_is_printed_while_the_platform_is_away_comes_later_or_is_counted(self):
        for source in (
            """
            import os, time
            def run(away, printed, back):
                while not os.path.exists(away): time.sleep(0.002)
                for n in range(15_000): print(f"{n:05}" + 95 * ".")
                open(printed, "w").close()
                while not os.path.exists(back): time.sleep(0.002)
                print("last")
            """,
            """
            import asyncio, os
            async def run(away, printed, back):
                while not os.path.exists(away): await asyncio.sleep(0.002)
                for n in range(15_000): print(f"{n:05}" + 95 * ".")
                open(printed, "w").close()
                while not os.path.exists(back): await asyncio.sleep(0.002)
                print("last")
            """,
        ):
            with self.subTest(source):
                link = self.ready(source)
                away, printed, back = (tempfile.mktemp(dir=self.directory) for _ in range(3))
                link.job(1, {"away": away, "printed": printed, "back": back})
                link.send(protocol.PING)
                link.expect(protocol.PONG)
                self.platform.vanish()
                open(away, "w").close()
                wait_until(lambda printed=printed: os.path.exists(printed))
                self.platform.listen()
                self.launcher, again = self.platform.link("launcher"), self.platform.link(link.worker)
                came = dropped = 0
                while came + dropped < 15_000:
                    lines = self.launcher.expect(protocol.LOG).body.splitlines()
                    notes = [line for line in lines if line.startswith(b"[svc]")]
                    came += len(lines) - len(notes)
                    dropped += sum(int(note.split()[1]) for note in notes)
                self.assertEqual(came + dropped, 15_000)
                self.assertGreater(came, 0)
                self.assertGreater(dropped, 0)
                again.expect(protocol.CREDIT)
                open(back, "w").close()
                again.result(1)
                self.assertEqual(again.expect(protocol.LOG).body, b"last\n")

    def test_threads_that_take_what_waits_while_the_link_breaks_do_not_end_the_worker(self):
        link = self.ready("import sys\nsys.setswitchinterval(1e-6)\ndef run():\n    pass\n", concurrency=4)
        worker = link.worker
        for turn in range(6):
            with link.together():
                for number in range(2000):
                    link.job(1 + turn * 2000 + number)
            link.expect(protocol.RESULT)
            self.platform.vanish()
            self.platform.listen()
            self.launcher = self.platform.link("launcher")
            link = self.platform.link(worker)
        link.result(turn * 2000 + 2000)

    def test_more_jobs_than_a_head_holds_are_listed_in_the_body_of_hello(self):
        source = """
            import asyncio
            async def run(): await asyncio.sleep(60)
            """
        link = self.ready(source, concurrency=1000)
        channels = list(range(1, 1001))
        for channel in channels:
            link.job(channel)
        link.send(protocol.PING)
        link.expect(protocol.PONG)
        self.platform.vanish()
        self.platform.listen()
        again = self.platform.link(link.worker)
        self.assertEqual(again.hello.head["unacknowledged"], [])
        self.assertEqual([one["channel"] for one in again.hello.json], channels)

    def test_a_result_without_ack_is_sent_again_after_welcome_and_forgotten_after_its_ack(self):
        for source, concurrency in (
            ("def run():\n    return 1\n", 1),
            ("async def run():\n    return 1\n", 2),
            ("def run():\n    return 1\n", 2),
        ):
            with self.subTest(source=source, concurrency=concurrency):
                link = self.ready(source, endpoint=f"e{self.counter}", concurrency=concurrency)
                link.job(3)
                self.assertEqual(link.expect(protocol.RESULT, 3).json, 1)
                link.close()
                again = self.platform.link(link.worker)
                self.assertEqual([one["channel"] for one in again.hello.head["unacknowledged"]], [3])
                again.expect(protocol.CREDIT)
                self.assertEqual(again.result(3).json, 1)
                self.assertEqual(again.run(4).json, 1)  # the ACK of 3 was read before
                again.run(5)
                again.close()
                third = self.platform.link(link.worker)
                self.assertNotIn(3, [one["channel"] for one in third.hello.head["unacknowledged"]])

    def test_a_result_that_is_cut_off_in_a_full_socket_is_sent_again_as_a_whole(self):
        size = 8_000_000
        for prefix, concurrency in (("", 1), ("", 2), ("async ", 2)):
            with self.subTest(prefix=prefix, concurrency=concurrency):
                name = f"full-{self.counter}"
                link = self.ready(f"{prefix}def run(n):\n    return 'x' * n\n", endpoint=name, module=name.replace("-", "_"),
                                  concurrency=concurrency)  # fmt: skip
                before = link.bytes_read
                link.reading.clear()
                link.job(1, {"n": size})
                wait_until(lambda: link.bytes_read > before, what="the result is on its way, and stuck")  # noqa: B023
                link.close()
                again = self.platform.link(link.worker)
                self.assertEqual([one["channel"] for one in again.hello.head["unacknowledged"]], [1])
                self.assertEqual(len(again.result(1).json), size)
                self.assertEqual(again.run(2, {"n": 3}).json, "xxx")

    def test_chunks_made_while_the_platform_is_away_are_kept(self):
        link = self.ready(
            """
            import os, time
            def run(gate):
                yield 1
                while not os.path.exists(gate): time.sleep(0.002)
                yield 2
            """
        )
        gate = self.directory + "/gate"
        link.job(1, {"gate": gate})
        link.expect(protocol.CHUNK)
        self.platform.vanish()
        open(gate, "w").close()
        self.platform.listen()
        again = self.platform.link(link.worker)
        self.assertEqual(again.expect(protocol.CHUNK, 1).json, 2)
        self.assertEqual(again.result(1).json, [1, 2])

    def test_the_launcher_comes_back_with_the_list_of_what_is_alive_and_what_ended_meanwhile(self):
        first = self.ready("import os, time\ndef run(away):\n    while not os.path.exists(away): time.sleep(0.002)\n    os._exit(4)\n")
        second = self.ready()
        first_pid = self.launcher.expect(protocol.STARTED, worker=first.worker).head["pid"]
        second_pid = self.launcher.expect(protocol.STARTED, worker=second.worker).head["pid"]
        away = self.directory + "/away"
        second.job(1, {"away": away})
        second.send(protocol.PING)
        second.expect(protocol.PONG)
        self.platform.vanish()
        # What is written in the moment in which a platform ends is lost with it: the worker ends later.
        open(away, "w").close()
        wait_until(lambda: not alive(second_pid))
        self.platform.listen()
        again = self.platform.link("launcher")
        self.assertEqual(again.expect(protocol.EXITED, worker=second.worker).head["code"], 4)
        workers = {one["worker"] for one in again.expect(protocol.WORKERS).head["workers"]}
        self.assertIn(first.worker, workers)
        self.assertTrue(alive(first_pid))

    def test_a_refused_worker_ends(self):
        self.platform.refuse.add("w-1")
        self.start("def run():\n    return 1\n")
        self.assertEqual(self.launcher.expect(protocol.EXITED).head["code"], 0)


class BrokenLink(unittest.TestCase):
    def test_an_end_that_is_told_before_the_launcher_sees_the_break_comes_after_it(self):
        path = tempfile.mktemp(prefix="svc-test-")
        self.addCleanup(lambda: os.unlink(path))
        server = socket.socket(socket.AF_UNIX)
        self.addCleanup(server.close)
        server.bind(path)
        server.listen()
        link = PlatformLink(path, "t", "launcher", 60, lambda: {"workers": []})

        def greeted() -> socket.socket:
            link.tick()
            platform, _ = server.accept()
            platform.settimeout(WAIT_S)
            platform.sendall(encode(protocol.WELCOME, 0, {"protocol": 1}))
            wait_until(lambda: select.select([link.descriptor], [], [], 0)[0])
            self.assertEqual(link.readable(), [])
            return platform

        greeted().close()
        link.send(encode(protocol.EXITED, 0, {"worker": "w-1", "code": 4}))
        self.assertEqual(link.readable(), [])
        again = greeted()
        reader, types = FrameReader(), []
        while protocol.WORKERS not in types:
            types += [frame[0] for frame in reader.push(again.recv(65536))]
        self.assertEqual(types, [protocol.HELLO, protocol.EXITED, protocol.WORKERS])
        again.close()
        self.assertEqual(link.readable(), [])


class GivingUp(LauncherTest):
    # Also what the first connection may take, on a busy machine.
    reconnect_ms = 3_000

    def test_launcher_and_workers_end_when_the_platform_never_comes_back(self):
        link = self.ready("import os\ndef run():\n    return [os.getpid(), os.getppid()]\n")
        pids = link.run(1).json
        self.platform.vanish()
        self.assertEqual(self.process.wait(WAIT_S), 0)
        wait_until(lambda: not any(alive(pid) for pid in pids))


if __name__ == "__main__":
    unittest.main()
