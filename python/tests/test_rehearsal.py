"""What the launcher plays before it forks: a worker's first job, without a trace."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support  # noqa: F401 (puts the sources on the path)

from svc import this_worker
from svc._runtime.process import rehearsal
from svc.context import foreground


class Rehearsal(unittest.TestCase):
    def test_the_whole_way_of_a_job_is_played_and_nothing_of_it_stays(self):
        calls = []
        example = rehearsal.example
        rehearsal.example = lambda n=1: calls.append(n) or example(n)
        self.addCleanup(setattr, rehearsal, "example", example)
        before = self.state()
        rehearsal.rehearse()
        self.assertEqual(calls, [1] * rehearsal.TIMES)
        self.assertEqual(self.state(), before)

    def state(self) -> tuple:
        handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGURG, signal.SIGCHLD)]
        streams = (id(sys.stdout), id(sys.stderr))
        return (
            sorted(os.listdir("/proc/self/fd")),
            _thread._count(),
            handlers,
            streams,
            foreground.context,
            (this_worker.WORKER, this_worker.LOADING),
        )


if __name__ == "__main__":
    unittest.main()
