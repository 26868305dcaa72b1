"""When a worker polls for its next work, and when it goes to sleep at once."""

from __future__ import annotations

import asyncio
import socket
import unittest
from unittest.mock import patch

from svc._runtime.limits import BUSY_POLL_PAUSE_MAX
from svc._runtime.link.busy_poll import BlockingPoll, LoopPoll


class Blocking(unittest.TestCase):
    def setUp(self):
        self.near, self.far = socket.socketpair()
        self.addCleanup(self.near.close)
        self.addCleanup(self.far.close)
        self.slept = self.looked = 0
        self.poll = BlockingPoll(self.read)

    def read(self, flags=0):
        """As Connection.read, with bytes for frames."""
        if flags == socket.MSG_DONTWAIT:
            self.looked += 1
        else:
            self.slept += 1
        try:
            data = self.near.recv(100, flags)
        except BlockingIOError:
            return []
        return [data] if data else None

    def test_what_is_there_is_read_without_sleeping(self):
        for _ in range(3):
            self.far.sendall(b"frame")
            self.assertEqual(self.poll.read(), [b"frame"])
        self.assertEqual(self.slept, 0)

    def test_a_broken_link_is_told_at_once(self):
        self.far.close()
        self.assertIsNone(self.poll.read())
        self.assertEqual(self.looked, 1)

    def test_polling_in_vain_is_left_out_more_often_each_time(self):
        def read_late(flags=0):
            if flags == 0:
                self.far.sendall(b"frame")
            return self.read(flags)

        def left_out():
            """How many waits sleep at once before one that polls first."""
            for times in range(2 * BUSY_POLL_PAUSE_MAX):
                self.looked = 0
                self.assertEqual(poll.read(), [b"frame"])
                if self.looked:
                    return times
            raise AssertionError("it polls no more")

        poll = BlockingPoll(read_late)
        seen = [left_out() for _ in range(8)]
        self.assertEqual(seen, [0, 1, 3, 7, 15, 31, BUSY_POLL_PAUSE_MAX, BUSY_POLL_PAUSE_MAX])


class EventLoop(unittest.TestCase):
    def setUp(self):
        self.loop = asyncio.new_event_loop()
        self.addCleanup(self.loop.close)
        self.poll = LoopPoll(self.loop)

    def is_awake(self):
        return bool(self.loop._ready)

    def turn(self):
        self.loop.run_until_complete(asyncio.sleep(0))

    def sleep(self):
        """Until the loop may sleep. How often it turned before."""
        turns = 0
        while self.is_awake():
            self.turn()
            turns += 1
        return turns

    @patch("svc._runtime.link.busy_poll.BUSY_POLL_S", 60)
    def test_the_loop_stays_awake_until_the_work_comes(self):
        for _ in range(3):
            self.poll.expect()
            for _ in range(3):
                self.turn()
                self.assertTrue(self.is_awake())
            self.poll.arrived()
            self.assertLessEqual(self.sleep(), 2)

    def test_polling_in_vain_ends_and_is_left_out_more_often_each_time(self):
        seen = []
        for _ in range(8):
            left_out = 0
            self.poll.expect()
            while not self.is_awake():
                left_out += 1
                self.poll.expect()
            self.sleep()
            seen.append(left_out)
        self.assertEqual(seen, [0, 1, 3, 7, 15, 31, BUSY_POLL_PAUSE_MAX, BUSY_POLL_PAUSE_MAX])


if __name__ == "__main__":
    unittest.main()
