"""Workers whose process is stopped: they are not dead, and not left alone for ever either."""

from __future__ import annotations

import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import LauncherTest, protocol, wait_until

from svc._runtime.confine import kernel

WAITS = """
    import os, time
    def run(gate):
        print("begun")
        while not os.path.exists(gate): time.sleep(0.002)
        return "done"
"""


class Stopped(LauncherTest):
    def stop_worker(self):
        link = self.ready(WAITS)
        self.pid = self.launcher.expect(protocol.STARTED, worker=link.worker).head["pid"]
        link.job(1, {"gate": f"{self.directory}/gate"})
        link.expect(protocol.LOG, 1)
        os.kill(self.pid, signal.SIGSTOP)
        self.addCleanup(kernel.kill_quietly, self.pid, signal.SIGCONT)
        wait_until(lambda: kernel.is_stopped(self.pid), what="it has stopped")
        return link

    def test_a_worker_that_goes_on_finishes_its_job(self):
        link = self.stop_worker()
        os.kill(self.pid, signal.SIGCONT)
        open(f"{self.directory}/gate", "w").close()
        self.assertEqual(link.result(1).json, "done")


class StaysStopped(Stopped):
    settings = {"stoppedMaxMs": 100}
    test_a_worker_that_goes_on_finishes_its_job = None

    def test_a_worker_that_stays_stopped_is_killed_and_its_exit_says_why(self):
        link = self.stop_worker()
        exited = self.launcher.expect(protocol.EXITED, worker=link.worker).head
        self.assertEqual(exited["signal"], "SIGKILL")
        self.assertIn("stopped (SIGSTOP)", exited["reason"])


if __name__ == "__main__":
    unittest.main()
