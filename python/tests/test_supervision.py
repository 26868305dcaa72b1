"""What the launcher does when a process that it starts workers through ends, stops, or cannot be made."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import LauncherTest, alive, protocol, wait_until

from svc._runtime.confine import kernel
from svc._runtime.process.zygote import send_message

RUN = "def run():\n    return 1\n"
WHO = "import os\ndef run():\n    return [os.getpid(), os.getppid()]\n"


def is_nursery(pid: int) -> bool:
    try:
        return b"svc._runtime.process.nursery" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


class Supervision(LauncherTest):
    def setUp(self) -> None:
        super().setUp()
        self.stopped: set[int] = set()
        self.addCleanup(self._go_on)

    def _go_on(self) -> None:
        for pid in self.stopped:
            kernel.kill_quietly(pid, signal.SIGCONT)

    def stop(self, pid: int) -> None:
        self.stopped.add(pid)
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: is_stopped(pid), what="it has stopped")

    def nursery(self, but: int = 0) -> int:
        """The launcher's child that is executed as the nursery; zygotes are forks of it and children too."""
        found: list[int] = []

        def look() -> bool:
            children = set(kernel.children_of(self.process.pid)) - {but, *self.zygotes}
            found[:] = filter(is_nursery, children)
            return len(found) == 1

        wait_until(look, what="one nursery")
        return found[0]

    zygotes: tuple[int, ...] = ()

    def test_a_killed_nursery_is_replaced_and_its_zygotes_go_on(self):
        link = self.ready(WHO)
        zygote = link.run(1).json[1]
        self.zygotes = (zygote,)
        nursery = self.nursery()
        os.kill(nursery, signal.SIGKILL)
        self.assertEqual(self.nursery(but=nursery) != nursery, True)
        self.assertEqual(link.run(2).json[1], zygote)
        self.assertEqual(self.ready().run(1).json[1], zygote)
        other = self.ready(WHO, endpoint="other").run(1).json
        self.assertNotEqual(other[1], zygote)

    def test_a_worker_that_waits_for_a_nursery_that_is_killed_is_given_back_through_no_fault_of_its_own(self):
        self.ready(RUN)
        self.zygotes = tuple(pid for pid in kernel.children_of(self.process.pid) if kernel.children_of(pid))
        nursery = self.nursery()
        self.stop(nursery)
        worker = self.start(RUN, endpoint="other")
        self.launcher.send(protocol.PING)
        self.launcher.expect(protocol.PONG)
        os.kill(nursery, signal.SIGKILL)
        ended = self.launcher.expect(protocol.EXITED, worker=worker).head
        self.assertEqual(ended["cause"], "machine")
        self.assertIn("was killed by SIGKILL", ended["reason"])
        self.assertEqual(self.ready(RUN, endpoint="other").run(1).json, 1)

    def test_a_nursery_that_stands_still_holds_up_nobody_who_does_not_need_it(self):
        link = self.ready(WHO)
        zygote = link.run(1).json[1]
        self.zygotes = (zygote,)
        nursery = self.nursery()
        self.stop(nursery)
        waiting = self.start(WHO, endpoint="other")
        self.assertEqual(self.ready(endpoint="hello").run(1).json[1], zygote)
        os.kill(nursery, signal.SIGCONT)
        self.assertEqual(self.platform.link(waiting).run(1).head["ok"], True)

    def test_a_worker_asked_of_a_zygote_that_is_killed_comes_from_another_zygote(self):
        zygote = self.ready(WHO).run(1).json[1]
        wait_until(lambda: len(kernel.children_of(zygote)) == 2, what="a spare")
        self.stop(zygote)
        workers = [self.start(WHO) for _ in range(3)]
        self.launcher.send(protocol.PING)
        self.launcher.expect(protocol.PONG)
        os.kill(zygote, signal.SIGKILL)
        served = []
        for worker in workers[1:]:  # the first one was the spare, and ended with its zygote
            served.append(self.platform.link(worker).run(1).json[1])
        self.assertEqual(len(set(served)), 1)
        self.assertNotIn(zygote, served)
        self.assertEqual(self.launcher.seen(protocol.BOOT_FAILED), [])

    def test_a_process_that_the_machine_cannot_make_is_no_fault_of_the_code_and_the_next_try_may_succeed(self):
        zygote = self.ready(WHO).run(1).json[1]
        wait_until(lambda: len(kernel.children_of(zygote)) == 2, what="a spare")
        pid = self.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        # As many as it has: fewer than it waits on would end any poll.
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")), before[1]))
        for boot in ("SVCBOOT", "OFF"):
            worker = self.start(RUN, endpoint="other", boot=boot)
            ended = self.launcher.expect(protocol.EXITED, worker=worker).head
            self.assertEqual((ended["code"], ended["signal"], ended["cause"]), (None, None, "machine"))
            self.assertIn("the machine cannot start a process", ended["reason"])
        self.assertEqual(self.launcher.seen(protocol.BOOT_FAILED), [])
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        self.assertEqual(self.ready(RUN, endpoint="other").run(1).json, 1)
        self.assertEqual(self.ready(RUN, endpoint="other", boot="OFF").run(1).json, 1)

    def test_the_nursery_is_executed_so_that_nothing_of_the_launchers_memory_is_in_it(self):
        self.ready(RUN)
        self.zygotes = tuple(pid for pid in kernel.children_of(self.process.pid) if kernel.children_of(pid))
        nursery = self.nursery()
        self.assertTrue(alive(nursery))
        self.assertNotEqual(
            Path(f"/proc/{nursery}/cmdline").read_bytes(), Path(f"/proc/{self.process.pid}/cmdline").read_bytes()
        )

    def test_a_nursery_whose_launcher_has_gone_when_it_answers_ends_without_a_word(self):
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        code = f"import sys; sys.path[:0] = {sys.path!r}; from svc._runtime.process.nursery import main; main({its.fileno()})"
        nursery = subprocess.Popen([sys.executable, "-c", code], pass_fds=[its.fileno()], stderr=subprocess.PIPE)
        with open(os.devnull) as nothing:
            send_message(ours, {"number": 1, "namespaces": ""}, (nothing.fileno(),) * 3)
        ours.close()
        its.close()
        self.assertEqual(nursery.communicate(timeout=60)[1].decode(), "")
        self.assertEqual(nursery.returncode, 0)


if __name__ == "__main__":
    unittest.main()
