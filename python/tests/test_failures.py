"""Exceptions whose own code fails when it is asked what they are, and those that say more than a failure keeps."""

from __future__ import annotations

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import LauncherTest

RAISES = """\
class Silent(Exception):
    def __str__(self): raise SystemExit(5)
class Hidden(Exception):
    @property
    def __traceback__(self): raise KeyboardInterrupt()
class Unclear:
    def __repr__(self): raise SystemExit(6)
class Kind(type):
    def __getattribute__(cls, name):
        if name == '__qualname__': raise RuntimeError(name)
        return super().__getattribute__(name)
class Nameless(Exception, metaclass=Kind): pass
LONG = 'a' + 50_000_000 * 'x' + 'z'
def run(which):
    if which == 'silent': raise Silent()
    if which == 'hidden': raise Hidden('here')
    if which == 'key': raise KeyError(Unclear())
    if which == 'exit': raise SystemExit(Unclear())
    if which == 'nameless': raise Nameless()
    if which == 'long': raise ValueError(LONG)
    return which
"""


class Failures(LauncherTest):
    def told(self, source: str, concurrency: int) -> None:
        link = self.ready(source, concurrency=concurrency)
        asked = ("silent", "hidden", "key", "exit", "nameless")
        said = {which: link.run(at, {"which": which}).json for at, which in enumerate(asked, 1)}
        self.assertRegex(said["silent"]["error_type"], r"\.Silent$")
        self.assertEqual(said["silent"]["error_message"], "Silent")
        self.assertEqual(said["hidden"]["error_message"], "here")
        for which in ("key", "exit", "nameless"):
            self.assertEqual(said[which]["error_type"], "Exception")
            self.assertIn("cannot be described", said[which]["error_message"])
        self.assertEqual(link.run(9, {"which": "alive"}).json, "alive", "the worker goes on")

    def test_an_exception_that_fails_when_it_is_described_fails_its_job_alone(self):
        self.told(RAISES, 1)

    def test_also_in_a_thread(self):
        self.told(RAISES, 2)

    def test_also_on_the_event_loop(self):
        self.told(RAISES.replace("def run", "async def run"), 2)

    def test_of_a_long_message_its_beginning_and_its_end_are_kept(self):
        failure = self.ready(RAISES).run(1, {"which": "long"}).json
        self.assertEqual(failure["error_type"], "ValueError")
        for field in ("error_message", "error_traceback"):
            self.assertRegex(failure[field], r"x… \(\d+ characters left out\) …x")
            self.assertRegex(failure[field], r"xz\n?$")
        self.assertTrue(failure["error_message"].startswith("axx"))
        self.assertTrue(failure["error_traceback"].startswith("Traceback"))
        self.assertLess(len(failure["error_message"]) + len(failure["error_traceback"]), 50_000)


if __name__ == "__main__":
    unittest.main()
