"""A worker that the machine gives no thread keeps what it was given: it runs without one, or waits for one."""

from __future__ import annotations

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import LauncherTest, protocol

# The kernel refuses each thread that is asked for with such a stack, until `more` is there: a thread from before looks for it.
SOURCE = """
import os, threading, time

def allow(gate):
    while not os.path.exists(gate): time.sleep(0.005)
    threading.stack_size(0)

threading.Thread(target=allow, args=({gate!r},), daemon=True).start()
threading.stack_size(1 << 45)

class Model:
    def can(self):
        try: threading.Thread(target=int).start()
        except RuntimeError: return False
        return True
    def forever(self):
        print("begun")
        while True: sum(range(100))
    # more
"""
LOOP = "async def hello(self): return 'hello'"


class ScarceThreads(LauncherTest):
    def model(self, concurrency: int, more: str = ""):
        self.gate = os.path.join(self.directory, "more")
        source = SOURCE.format(gate=self.gate).replace("# more", more)
        return self.ready(source, "Model", kind="class", concurrency=concurrency)

    def allow(self) -> None:
        with open(self.gate, "w"):
            pass

    def test_a_sync_function_runs_without_the_thread_that_reads_for_it_and_gets_it_later(self):
        link = self.model(1)
        self.assertIs(link.run(1, method="can").json, False)
        self.allow()
        channel = 2
        while not link.run(channel, method="can").json:
            channel += 1
        link.job(1000, method="forever")
        link.expect(protocol.LOG, 1000)
        link.send(protocol.CANCEL, 1000, {"reason": "cancelled"})
        self.assertEqual(link.result(1000).json["error_type"], "Cancelled")

    def test_jobs_of_several_threads_wait_for_them(self):
        link = self.model(3)
        for channel in range(1, 8):
            link.job(channel, method="can")
        self.assertIn(b"no thread can be started", link.expect(protocol.LOG).body)
        link.send(protocol.PING)
        link.expect(protocol.PONG)
        self.assertEqual(link.seen(protocol.RESULT), [])
        self.assertEqual(link.seen(protocol.LOG), [], "it is said once")
        self.allow()
        for channel in range(1, 8):
            self.assertIs(link.result(channel).json, True)
        link.send(protocol.DRAIN)
        link.expect(protocol.GOODBYE)

    def test_an_event_loop_goes_on_and_sync_functions_beside_it_wait_for_a_thread(self):
        link = self.model(3, LOOP)
        for channel in range(1, 4):
            link.job(channel, method="can")
        link.send(protocol.PING)
        link.expect(protocol.PONG)
        self.assertEqual(link.seen(protocol.RESULT), [])
        self.allow()
        for channel in range(1, 4):
            self.assertIs(link.result(channel).json, True)
        self.assertEqual(link.run(9, method="hello").json, "hello")

    def test_an_event_loop_answers_without_any_and_comes_back_when_the_link_broke(self):
        link = self.model(3, LOOP)
        self.assertEqual(link.run(1, method="hello").json, "hello")
        link.job(2, method="can")
        link.send(protocol.PING)
        link.expect(protocol.PONG)
        link.close()
        self.allow()
        again = self.platform.link(link.worker)
        self.assertEqual([held["job"] for held in again.hello.head["unacknowledged"]], ["job-2"])
        self.assertIs(again.result(2).json, True)


if __name__ == "__main__":
    unittest.main()
