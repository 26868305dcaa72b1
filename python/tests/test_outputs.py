"""The launcher's ends of its workers' outputs."""

from __future__ import annotations

import os
import select
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src"))

from svc._runtime.process.outputs import Outputs


class Link:
    """Where lines go; it takes all."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def send_output(self, frame: bytes) -> bool:
        self.frames.append(frame)
        return True


class ItsOutputs(unittest.TestCase):
    def test_what_was_closed_at_its_end_closes_nothing_that_has_its_number_by_then(self):
        """A zygote's output may end before the zygote is reaped, and another begin in between."""
        outputs = Outputs(select.poll(), Link())
        first, stdout, stderr = outputs.open("first")
        os.close(stdout)
        os.close(stderr)
        for pipe in first:
            outputs.read(pipe.descriptor)
        second, stdout, stderr = outputs.open("second")
        self.addCleanup(lambda: (os.close(stdout), os.close(stderr)))
        self.assertTrue({pipe.descriptor for pipe in second} & {pipe.descriptor for pipe in first})
        for pipe in first:
            outputs.close(pipe)
        os.write(stdout, b"a line\n")
        for pipe in second:
            self.assertIn(pipe.descriptor, outputs)
            outputs.close(pipe)


if __name__ == "__main__":
    unittest.main()
