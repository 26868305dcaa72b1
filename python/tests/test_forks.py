"""Processes that a function forks: they never speak for the worker, its link goes on, and none stays behind."""

from __future__ import annotations

import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import LauncherTest, alive, protocol, wait_until

from svc._calling import connections, discovery, threads

FORKS = """
    import asyncio, multiprocessing, os, sys, threading
    def square(n): return n * n
    class Model:
        def fork(self, how):
            pid = os.fork()
            if pid == 0:
                if how == "raise": raise ValueError("in the child")
                if how == "exit": sys.exit(3)
                print("from the child")
                return "child"
            return [pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]
        def pool(self):
            with multiprocessing.get_context("fork").Pool(2) as pool:
                return pool.map(square, [1, 2, 3])
        # more
"""
ASYNC = """
        async def fork_async(self, how):
            pid = os.fork()
            if pid == 0:
                if how == "raise": raise ValueError("in the child")
                if how == "exit": sys.exit(3)
                if how == "await": await asyncio.sleep(60)
                return "child"
            while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
                await asyncio.sleep(0.005)
            return [pid, os.waitstatus_to_exitcode(ended[1])]
        async def pool_async(self):
            return self.pool()
"""
WAYS = (("one at a time", 1, ""), ("threads", 3, ""), ("event loop", 3, ASYNC))


class Forks(LauncherTest):
    def test_a_child_ends_where_the_function_does_and_the_link_goes_on(self):
        for way, concurrency, more in WAYS:
            name = f"forks-{self.counter}"
            source = FORKS.replace("        # more", more)
            link = self.ready(source, "Model", kind="class", endpoint=name, module=name.replace("-", "_"), concurrency=concurrency)
            channel = 0
            for method in ("fork", "fork_async") if more else ("fork",):
                for how, code in (("return", 0), ("raise", 1), ("exit", 3), *([("await", 1)] if method != "fork" else [])):
                    with self.subTest(way, method=method, how=how):
                        channel += 1
                        pid, ended = link.run(channel, {"how": how}, method=method).json
                        self.assertEqual(ended, code)
                        self.assertFalse(alive(pid))
            for method in ("pool", "pool_async") if more else ("pool",):
                with self.subTest(way, method=method):
                    channel += 1
                    self.assertEqual(link.run(channel, method=method).json, [1, 4, 9])
            link.send(protocol.PING)
            link.expect(protocol.PONG)
            self.assertEqual(link.seen(protocol.RESULT), [], "no child has answered")


    def test_a_child_that_is_terminated_at_once_ends(self):
        source = """
            import os, signal
            def run():
                for _ in range(200):
                    pid = os.fork()
                    if pid == 0:
                        while True: signal.pause()
                    os.kill(pid, signal.SIGTERM)
                    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != -signal.SIGTERM: return "another end"
                return "all ended"
        """
        self.assertEqual(self.ready(source).run(1).json, "all ended")


class Locks(unittest.TestCase):
    def test_a_lock_that_another_thread_holds_at_the_fork_does_not_stop_the_child(self):
        for module in (connections, discovery, threads):
            with self.subTest(module.__name__):
                held, done = threading.Event(), threading.Event()

                def hold(lock=module._lock, held=held, done=done) -> None:
                    with lock:
                        held.set()
                        done.wait()

                thread = threading.Thread(target=hold)
                thread.start()
                held.wait()
                pid = os.fork()
                if pid == 0:
                    os._exit(0 if module._lock.acquire(timeout=0) else 1)
                done.set()
                thread.join()
                self.assertEqual(os.waitpid(pid, 0)[1], 0)


if __name__ == "__main__":
    unittest.main()
