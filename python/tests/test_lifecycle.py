"""What `svc.enter` and `svc.exit` mark: when it runs, what it leaves for whom, and what is told when it fails."""

from __future__ import annotations

import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import LauncherTest, protocol, wait_until

MODEL = """
    import os, threading, time
    import svc
    class Model:
        def __init__(self): self.steps = [["init", os.getpid()]]
        @svc.enter
        def connect(self):
            began = time.perf_counter()
            print("connecting")
            self.steps.append(["enter", os.getpid()])
            self.took_ms = (time.perf_counter() - began) * 1000
        # more
        def seen(self): return [os.getpid(), self.steps]
        def took(self): return self.took_ms
        @svc.exit
        def close(self):
            print("closing", flush=True)
            open(os.environ["ENDED"], "a").write("closed\\n")
        @svc.exit
        def fail(self): raise ValueError("cannot close")
        @svc.exit
        def last(self): open(os.environ["ENDED"], "a").write("last\\n")
"""
SHARED = """
        @svc.enter(shared=True)
        def load(self):
            print("loading")
            self.steps.append(["shared", os.getpid()])
"""
ASYNC = """
        @svc.enter
        async def connect_async(self):
            import asyncio
            self.loop = asyncio.get_running_loop()
        async def loop_is_kept(self):
            import asyncio
            return self.loop is asyncio.get_running_loop()
        @svc.exit
        async def close_async(self):
            import asyncio
            await asyncio.sleep(0)
            if self.loop is asyncio.get_running_loop(): open(os.environ["ENDED"], "a").write("async\\n")
"""
WAYS = (("one at a time", 1, ""), ("threads", 3, ""), ("event loop", 3, ASYNC))


class Lifecycle(LauncherTest):
    def setUp(self) -> None:
        super().setUp()
        self.ended = Path(self.directory, "ended")
        self.gate = Path(self.directory, "gate")
        os.mkfifo(self.gate)

    def model(self, source: str, **named):
        name = f"model-{self.counter}"
        named = {"kind": "class", "endpoint": name, "module": name.replace("-", "_"), "env": self.env(), **named}
        return self.ready(source, "Model", **named)

    def env(self) -> dict:
        return {"ENDED": str(self.ended), "GATE": str(self.gate)}

    def open_gate(self) -> None:
        """Lets go what waits in `open(os.environ["GATE"])`."""
        self.gate.write_text("")

    def printed(self, text: str):
        """The next LOG of the launcher with this text: what is printed before the worker has greeted."""
        while text.encode() not in (frame := self.launcher.expect(protocol.LOG)).body:
            pass
        return frame

    def failure(self, source: str, forked: bool = False) -> dict:
        """What the launcher says of a zygote, or the worker of itself once it is forked."""
        worker = self.start(source, "Model", kind="class", endpoint=f"wrong-{self.counter}", module=f"wrong_{self.counter}")
        link = self.platform.link(worker) if forked else self.launcher
        return link.expect(protocol.BOOT_FAILED, worker=worker).head

    def test_enter_runs_once_before_the_first_job_and_exit_once_after_the_last(self):
        for way, concurrency, more in WAYS:
            with self.subTest(way):
                link = self.model(MODEL.replace("        # more", more), concurrency=concurrency)
                self.assertGreaterEqual(link.credit.head["importMs"], link.run(9, method="took").json)
                self.printed("connecting")
                for channel in (1, 2):
                    pid, steps = link.run(channel, method="seen").json
                    self.assertEqual(steps, [["init", pid], ["enter", pid]])
                if more:
                    self.assertTrue(link.run(3, method="loop_is_kept").json)
                self.assertIn("no method 'connect'", link.run(4, method="connect").json["error_message"])
                self.assertFalse(self.ended.exists())
                link.send(protocol.DRAIN, 0, {"graceMs": 1000})
                link.expect(protocol.GOODBYE)
                logs = b"".join(frame.body for frame in link.seen(protocol.LOG))
                self.assertIn(b"closing\n", logs)
                self.assertIn(b"ValueError: cannot close", logs)
                self.assertEqual(sorted(self.ended.read_text().split()), sorted(["closed", "last", *(["async"] if more else [])]))
                self.ended.unlink()

    def test_exit_runs_after_the_job_that_runs_when_the_worker_is_drained(self):
        more = """
        def slow(self):
            open(os.environ["ENDED"], "a").write("begun\\n")
            open(os.environ["GATE"]).read()
            open(os.environ["ENDED"], "a").write("done\\n")
"""
        for way, concurrency, asynchronous in WAYS:
            with self.subTest(way):
                link = self.model(MODEL.replace("        # more", more + asynchronous), concurrency=concurrency)
                link.job(1, method="slow")
                wait_until(self.ended.exists)
                link.send(protocol.DRAIN, 0, {"graceMs": 1000})
                self.open_gate()
                link.result(1)
                link.expect(protocol.GOODBYE)
                self.assertEqual(self.ended.read_text().split()[:3], ["begun", "done", *(["async"] if asynchronous else ["closed"])])
                self.ended.unlink()

    def test_exit_runs_to_its_end_when_the_worker_is_stopped_however_often_it_is_told(self):
        wait = 'open(os.environ["ENDED"], "a").write("begun\\n"); open(os.environ["GATE"]).read()'
        slow = MODEL.replace('print("closing", flush=True)', wait)
        for way, concurrency, more in WAYS:
            with self.subTest(way):
                link = self.model(slow.replace("        # more", more), concurrency=concurrency)
                pid = link.run(1, method="seen").json[0]
                self.launcher.send(protocol.STOP, 0, {"worker": link.worker, "graceMs": 10_000})
                wait_until(lambda: self.ended.exists() and "begun" in self.ended.read_text())
                os.kill(pid, 15)
                self.open_gate()
                self.assertEqual(self.launcher.expect(protocol.EXITED, worker=link.worker).head["code"], 0)
                self.assertEqual(self.ended.read_text().split()[-3:], ["begun", "closed", "last"])
                self.ended.unlink()

    def test_what_is_printed_before_the_worker_has_greeted_is_in_the_log(self):
        self.ready("""
            class Model:
                def __init__(self): print("made without an end of line", end="")
                def run(self): pass
        """, "Model", kind="class")  # fmt: skip
        self.printed("made without an end of line")
        self.ready("""
            from svc import Endpoint
            async def app(scope, receive, send):
                assert scope["type"] == "lifespan"
                await receive()
                print("the application starts")
                await send({"type": "lifespan.startup.complete"})
                await receive()
            Endpoint(name="site").asgi(app)
        """, endpoint="site", module="site_file", routes={"ANY /": "app"})  # fmt: skip
        self.printed("the application starts")

    def test_what_is_killed_runs_no_exit(self):
        link = self.model(MODEL)
        os.kill(link.run(1, method="seen").json[0], 9)
        self.launcher.expect(protocol.EXITED, worker=link.worker)
        self.assertFalse(self.ended.exists())

    def test_what_is_shared_runs_once_before_the_fork_and_is_there_in_every_worker(self):
        source = MODEL.replace("        # more", SHARED)
        named = {"kind": "class", "endpoint": "shared", "module": "shared", "env": self.env()}
        links = [self.ready(source, "Model", **named) for _ in range(3)]
        found = [link.run(1, method="seen").json for link in links]
        self.assertEqual(len({pid for pid, _ in found}), 3)
        zygotes = {pid for _, steps in found for step, pid in steps if step in ("init", "shared")}
        self.assertEqual(len(zygotes), 1, "once, for all of them")
        for pid, steps in found:
            self.assertEqual([step for step, _ in steps], ["init", "shared", "enter"])
            self.assertEqual(steps[2][1], pid)
        self.printed("loading")

    def test_without_a_fork_each_worker_runs_what_is_shared(self):
        link = self.model(MODEL.replace("        # more", SHARED), boot="OFF")
        pid, steps = link.run(1, method="seen").json
        self.assertEqual(steps, [["init", pid], ["shared", pid], ["enter", pid]])

    def test_what_a_fork_would_break_is_refused_with_what_to_do(self):
        for what, why in (
            ("threading.Thread(target=threading.Event().wait, daemon=True).start()", "a thread is alive after it"),
            ("import socket; self.socket = socket.socket()", "a socket is open after it"),
            ("import asyncio; self.loop = asyncio.new_event_loop()", "an event loop is open after it"),
        ):
            with self.subTest(why):
                failure = self.failure(MODEL.replace("        # more", SHARED + f"            {what}\n"))
                self.assertIn(f"Model.load cannot be shared by all workers: {why}", failure["error_message"])
                self.assertIn("in a method marked @svc.enter", failure["error_message"])
        early = MODEL.replace("    class Model", "    threading.Thread(target=threading.Event().wait, daemon=True).start()\n    class Model")
        failure = self.failure(early.replace("        # more", SHARED))
        self.assertIn("a thread is alive after import", failure["error_message"])

    def test_a_failure_has_the_frames_of_the_user_alone(self):
        for mark, forked in (("svc.enter", True), ("svc.enter(shared=True)", False)):
            with self.subTest(mark):
                method = f"        @{mark}\n        def load(self): return {{}}['weights']\n"
                failure = self.failure(MODEL.replace("        # more", method), forked)
                self.assertEqual((failure["error_type"], failure["error_message"]), ("KeyError", "KeyError: 'weights'"))
                self.assertRegex(failure["error_traceback"], r'File "wrong_\d+\.py", line \d+, in load')
                self.assertNotIn("_runtime", failure["error_traceback"])
                self.assertFalse(self.ended.exists())

    def test_async_methods_need_an_event_loop(self):
        method = "        async def load(self): pass\n"
        failure = self.failure(MODEL.replace("        # more", "        @svc.enter\n" + method), forked=True)
        self.assertIn("load is async, and no method of its class that jobs call is", failure["error_message"])
        failure = self.failure(MODEL.replace("        # more", "        @svc.enter(shared=True)\n" + method))
        self.assertIn("load is async, which @svc.enter(shared=True) cannot be", failure["error_message"])

    def test_a_child_that_enter_forks_does_not_become_a_second_worker(self):
        more = """
        @svc.enter
        def fork(self): self.child = os.fork()
        def end_of_child(self): return os.waitpid(self.child, 0)[1]
"""
        link = self.model(MODEL.replace("        # more", more))
        self.assertEqual(link.run(1, method="end_of_child").json, 0)

    def test_marks_are_inherited_and_a_method_without_one_replaces_one_with_it(self):
        link = self.model("""
            import svc
            class Base:
                def __init__(self): self.steps = []
                @svc.enter
                def first(self): self.steps.append("first")
                @svc.enter
                def replaced(self): self.steps.append("replaced")
            class Model(Base):
                @svc.enter
                def second(self): self.steps.append("second")
                def replaced(self): return "plain"
                def seen(self): return self.steps
        """)
        self.assertEqual(link.run(1, method="seen").json, ["first", "second"])
        self.assertEqual(link.run(2, method="replaced").json, "plain")


if __name__ == "__main__":
    unittest.main()
