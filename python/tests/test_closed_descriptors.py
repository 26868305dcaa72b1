"""Functions that close descriptors which they never opened, as code does that makes a daemon of its process."""

from __future__ import annotations

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import LauncherTest

CLOSING = {
    "sync": "import os\ndef run(low):\n    os.closerange(low, 4096)\n    return low\n",
    "async": "import os\nasync def run(low):\n    os.closerange(low, 4096)\n    return low\n",
}


class ClosedDescriptors(LauncherTest):
    def test_the_result_comes_and_the_worker_goes_on(self):
        for kind, concurrency in (("sync", 1), ("sync", 2), ("async", 1)):
            for low in (0, 3):
                with self.subTest(kind=kind, concurrency=concurrency, low=low):
                    link = self.ready(CLOSING[kind], concurrency=concurrency)
                    link.job(1, {"low": low})
                    again = self.platform.link(link.worker)
                    self.assertEqual(again.result(1).json, low)
                    self.assertEqual(again.run(2, {"low": 5000}).json, 5000)


if __name__ == "__main__":
    unittest.main()
