"""Zygotes that wait without a worker, and the memory they may hold meanwhile."""

from __future__ import annotations

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import LauncherTest, alive, protocol, wait_until

MB = 1024 * 1024
SOURCE = "import os\nweights = os.urandom(20 * 1024 * 1024)\ndef run():\n    return os.getppid()\n"


class ZygoteMemory(LauncherTest):
    settings = {"zygoteMemoryBytes": 60 * MB}

    def use(self, endpoint: str) -> int:
        """Starts a worker of the endpoint, lets it end and returns its zygote's pid."""
        link = self.ready(SOURCE, endpoint=endpoint, module=endpoint)
        zygote = link.run(1).json
        link.send(protocol.DRAIN, 0, {"graceMs": 1000})
        self.launcher.expect(protocol.EXITED, worker=link.worker)
        return zygote

    def test_beyond_the_bound_the_zygote_used_longest_ago_goes(self):
        first, second = self.use("first"), self.use("second")
        self.assertTrue(alive(first) and alive(second))
        self.assertEqual(self.use("first"), first)
        third = self.use("third")
        wait_until(lambda: not alive(second))
        self.assertTrue(alive(first) and alive(third))
        self.assertNotEqual(self.use("second"), second)

    def test_zygotes_with_workers_stay(self):
        busy = [self.ready(SOURCE, endpoint=name, module=name) for name in ("a", "b", "c", "d")]
        zygotes = [link.run(1).json for link in busy]
        idle = self.use("e")
        self.assertTrue(all(map(alive, [*zygotes, idle])))


class NoZygoteMemory(ZygoteMemory):
    settings = {"zygoteMemoryBytes": 0}

    def test_beyond_the_bound_the_zygote_used_longest_ago_goes(self):
        first = self.use("first")
        self.assertEqual(self.use("first"), first, "the one used last stays, whatever it holds")
        self.use("second")
        wait_until(lambda: not alive(first))


if __name__ == "__main__":
    unittest.main()
