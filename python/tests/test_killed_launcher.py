"""What stays of the workers of a launcher that was killed: nothing, once the next one has begun."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import LauncherTest, alive, wait_until

from svc._runtime.confine.stale_cgroups import find_stale
from svc._runtime.process.new_process import make_directory
from svc._runtime.process.remains import Remains

SOURCE = """
import os, subprocess
def run():
    with open(os.path.join(os.environ["TMPDIR"], "model.bin"), "w") as file:
        file.write("x")
    stray = subprocess.Popen(["sleep", "600"], start_new_session=True)
    with open("/proc/self/cgroup") as file:
        return [stray.pid, os.environ["TMPDIR"], "svc-" in file.read()]
"""


class KilledLauncher(LauncherTest):
    def setUp(self) -> None:
        super().setUp()
        self.root = os.path.join(self.directory, "tmp")
        self.settings = {"tempRoot": self.root}

    def work(self) -> tuple[int, str, bool]:
        """A worker that started a process of its own and wrote a file; then its launcher is killed."""
        directory = os.path.join(self.root, "ep", "w")
        os.makedirs(os.path.dirname(directory), exist_ok=True)
        pid, directory, grouped = self.ready(SOURCE, tempDir=directory, vcpus=1, memoryBytes=1 << 30).run(1).json
        self.addCleanup(self.end, pid)
        self.process.kill()
        self.process.wait()
        return pid, directory, grouped

    def end(self, pid: int) -> None:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)

    def test_the_folders_of_its_workers_are_removed_and_what_others_keep_there_stays(self):
        _, directory, _ = self.work()
        self.assertTrue(os.path.exists(os.path.join(directory, "model.bin")))
        outside = os.path.join(self.directory, "outside")
        os.mkdir(outside)
        os.symlink(outside, os.path.join(self.root, "ep", "link"))
        self.start_launcher()
        wait_until(lambda: not os.path.exists(directory))
        self.assertEqual(os.listdir(self.root), ["ep"])
        self.assertTrue(os.path.isdir(outside))

    def test_a_worker_that_is_late_does_not_bring_back_what_was_removed_with_its_platform(self):
        directory = os.path.join(self.root, "ep", "w")
        with self.assertRaises(FileNotFoundError):
            make_directory({"tempDir": directory})
        self.assertFalse(os.path.exists(self.root))
        os.mkdir(self.root)
        for _ in range(2):
            make_directory({"tempDir": directory})
        self.assertEqual(os.stat(directory).st_mode & 0o777, 0o700)

    def test_the_folders_of_workers_of_the_next_one_stay(self):
        _, directory, _ = self.work()
        self.start_launcher()
        link = self.ready(tempDir=os.path.join(self.root, "ep", "next"))
        wait_until(lambda: not os.path.exists(directory))
        self.assertTrue(os.path.isdir(link.run(1).json[1]))

    def test_processes_that_its_workers_had_started_are_killed_through_their_groups(self):
        pid, directory, grouped = self.work()
        if not grouped:
            self.skipTest("no groups of the kernel can be made here")
        self.start_launcher()  # or one of another test was first: any launcher of the machine does it
        wait_until(lambda: not alive(pid))
        wait_until(lambda: not os.path.exists(directory))

    def test_groups_that_this_user_may_not_remove_are_left_to_their_own(self):
        """Else it would try for ever, and never come to the folders."""
        parent = os.path.join(self.directory, "groups")
        stranger = os.path.join(parent, "svc-launcher-999999999")
        os.makedirs(os.path.join(stranger, "worker-1"))
        self.assertEqual(len(find_stale(parent, "launcher-1")), 1)
        os.chmod(stranger, 0o555)
        self.addCleanup(os.chmod, stranger, 0o755)
        os.chmod(parent, 0o755)
        pid = os.fork()
        if pid == 0:
            os.chdir(parent)
            if os.getuid() == 0:
                os.setresuid(31_000, 31_000, 31_000)
            os._exit(len(find_stale(".", "launcher-1")) if os.listdir(".") else 9)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)


class NoProcessToBeHad(unittest.TestCase):
    def test_a_directory_that_nobody_can_be_told_to_remove_goes_once_a_process_can_be_made(self):
        directory = tempfile.mkdtemp()
        open(os.path.join(directory, "left"), "w").close()
        remains = Remains(lambda _: True)
        with unittest.mock.patch("os.fork", side_effect=BlockingIOError):
            remains.remove_directory(directory)
        self.assertTrue(os.path.exists(directory))
        wait_until(lambda: remains.on_time() or not os.path.exists(directory))


if __name__ == "__main__":
    unittest.main()
