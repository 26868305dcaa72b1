"""An async function that computes without awaiting holds up its event loop, and nothing that can be done elsewhere."""

from __future__ import annotations

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import LauncherTest, protocol

SOURCE = """
import os, time

async def run(until=None):
    while until and not os.path.exists(until):
        time.sleep(0.01)
    return "done"
"""


class HeldUpLoop(LauncherTest):
    def test_jobs_that_wait_behind_it_are_given_back_and_those_that_stay_run_later(self):
        link = self.ready(SOURCE, kind="async-function")
        gate = os.path.join(self.directory, "gate")
        link.job(1, {"until": gate})
        link.job(2)
        link.job(3)
        link.send(protocol.CANCEL, 2, {"reason": "recalled"})
        given_back = link.expect(protocol.RESULT, 2)
        self.assertEqual((given_back.head["ok"], given_back.head["begun"]), (False, False))
        # Jobs that come only now wait with the others, and a PING is answered.
        link.job(4)
        link.job(5)
        link.send(protocol.CANCEL, 4, {"reason": "recalled"})
        self.assertEqual(link.expect(protocol.RESULT, 4).head["begun"], False)
        link.send(protocol.CANCEL, 3, {"reason": "cancelled"})
        # Frames are read in order: before the loop goes on, it is known which job is cancelled.
        link.send(protocol.PING)
        link.expect(protocol.PONG)
        link.send(protocol.DRAIN)
        self.assertEqual(link.seen(protocol.RESULT), [])
        with open(gate, "w"):
            pass
        self.assertEqual(link.result(1).json, "done")
        self.assertEqual(link.result(3).head["ok"], False)
        self.assertEqual(link.result(5).json, "done")
        link.send(protocol.ACK, 2)
        link.send(protocol.ACK, 4)
        link.expect(protocol.GOODBYE)


if __name__ == "__main__":
    unittest.main()
