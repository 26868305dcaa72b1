"""What an isolated worker cannot reach. Each test runs user code that tries, and shows that it works without isolation."""

from __future__ import annotations

import os
import signal
import socket
import sys
import unittest
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import LauncherTest, protocol

TRY = """
import ctypes, os, signal, socket

def attempt(what, *args):
    try:
        return globals()[what](*args)
    except Exception as error:
        return f"refused: {type(error).__name__}"

def read(path):
    return open(path).read()

def listing(path):
    return sorted(os.listdir(path))

def write(path):
    open(path, "w").write("x")
    return "written"

def kill(pid, number):
    os.kill(pid, number)
    return "sent"

def trace(pid):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, pid, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    libc.ptrace(17, pid, 0, 0)
    return "traced"

def uncover(path):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(path.encode(), 2) != 0:
        raise OSError(ctypes.get_errno(), "umount")
    return "uncovered"

def device(path):
    os.mknod(path, 0o600 | 0o060000, os.makedev(1, 0))
    return "made"

def pid():
    return os.getpid()

def searched(token):
    # The word is put together here, so that this function's own text is not found.
    wanted = token.encode()
    found = 0
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            start, end = (int(x, 16) for x in span.split("-"))
            if "r" not in rights or "[v" in line:
                continue
            try:
                memory.seek(start)
                found += memory.read(end - start).count(wanted)
            except (OSError, ValueError, OverflowError):
                pass
    return found

def run(what, args):
    return attempt(what, *args)
"""


WORDS = ("of-another-endpoint", "of-nobody-whatsoever"[:19], "of-this-endpoint-here")


class Isolation(LauncherTest):
    def setUp(self) -> None:
        super().setUp()
        self.data = os.path.join(self.directory, "data")
        for folder in ("layers/own/src", "layers/other/src", "tmp/ep", "run"):
            os.makedirs(os.path.join(self.data, folder))
        Path(self.data, "platform.db").write_text("everything")
        Path(self.data, "layers/other/src/secret.py").write_text("KEY = 1")
        self.source = os.path.join(self.data, "layers/own/src")

    def worker(self, tier: str = "standard", **changes):
        worker = f"w-{self.counter + 1}"
        return self.ready(
            TRY,
            isolation=tier,
            hidden=[self.data],
            tempDir=os.path.join(self.data, "tmp/ep", worker),
            **changes,
        )

    def attempt(self, link, what: str, *args):
        self.channel = getattr(self, "channel", 0) + 1
        return link.run(self.channel, {"what": what, "args": list(args)}).json

    def in_force(self) -> str:
        return self.launcher.expect(protocol.STARTED).head["isolation"]

    def test_without_isolation_all_of_this_works_and_the_platform_is_told(self):
        link = self.worker("none")
        self.assertEqual(self.in_force(), "")
        self.assertEqual(self.attempt(link, "read", os.path.join(self.data, "platform.db")), "everything")
        other = self.worker("none")
        self.assertEqual(self.attempt(link, "kill", self.attempt(other, "pid"), 0), "sent")

    def test_the_platforms_files_and_other_endpoints_code_are_not_there(self):
        for boot in ("SVCBOOT", "OFF"):
            with self.subTest(boot):
                link = self.worker(boot=boot, endpoint=f"e-{boot}")
                if "namespace" not in self.in_force():
                    self.skipTest("this machine allows no mount namespaces")
                self.assertEqual(self.attempt(link, "listing", self.data), ["layers", "tmp"])
                self.assertEqual(self.attempt(link, "listing", os.path.join(self.data, "layers")), ["own"])
                database = os.path.join(self.data, "platform.db")
                self.assertEqual(self.attempt(link, "read", database), "refused: FileNotFoundError")
                # Not by way of a process that sees them either, nor by taking the cover away.
                for way in (f"/proc/{self.process.pid}/root", f"/proc/{os.getpid()}/root", "/proc/1/root"):
                    self.assertRegex(self.attempt(link, "read", way + database), "refused")
                self.assertRegex(self.attempt(link, "read", f"/proc/{self.process.pid}/environ"), "refused")
                self.assertRegex(self.attempt(link, "uncover", self.data), "refused")

    def test_its_own_code_cannot_be_changed_and_its_temporary_directory_can(self):
        link = self.worker()
        if "namespace" not in self.in_force():
            self.skipTest("this machine allows no mount namespaces")
        self.assertEqual(self.attempt(link, "write", os.path.join(self.source, "worker_file.py")), "refused: OSError")
        self.assertEqual(self.attempt(link, "write", os.path.join(self.data, "tmp/ep", link.worker, "file")), "written")
        self.assertRegex(self.attempt(link, "write", os.path.join(self.directory, "outside")), "refused")
        for place in ("/etc/outside", "/usr/outside", "/dev/outside", "/proc/sys/kernel/core_pattern", "/run/outside"):
            self.assertRegex(self.attempt(link, "write", place), "refused", place)
        for place in ("/tmp/outside", "/var/tmp/outside", "/dev/shm/outside", "/dev/null"):
            self.assertEqual(self.attempt(link, "write", place), "written", place)
        self.assertFalse(os.path.exists("/tmp/outside"))

    def test_other_workers_and_the_launcher_can_be_neither_killed_nor_traced(self):
        link, sibling, stranger = self.worker(), self.worker(), self.worker(endpoint="stranger")
        if "landlock" not in self.in_force():
            self.skipTest("this kernel has no Landlock")
        own = self.attempt(link, "pid")
        for other in (self.attempt(sibling, "pid"), 1, self.process.pid, os.getpid()):
            self.assertNotEqual(other, own)
            self.assertRegex(self.attempt(link, "kill", other, 9), "refused")
            self.assertRegex(self.attempt(link, "trace", other), "refused")
        self.assertEqual(self.attempt(stranger, "write", "/dev/null"), "written")
        self.assertEqual(self.attempt(sibling, "pid"), self.attempt(sibling, "pid"))

    def test_a_worker_tells_its_token_to_no_other_process_in_the_platforms_place(self):
        # As where there are no namespaces: in one, the folder of the socket cannot be changed.
        os.rename(self.platform.path, f"{self.platform.path}.aside")
        heard, tell = os.pipe()
        impostor = os.fork()
        if impostor == 0:
            server = socket.socket(socket.AF_UNIX)
            server.bind(self.platform.path)
            server.listen(5)
            os.write(tell, b"listening ")
            while True:
                connection, _ = server.accept()
                os.write(tell, b"dialled " + connection.recv(1000))
                connection.close()
        self.addCleanup(os.waitpid, impostor, 0)
        self.addCleanup(os.kill, impostor, signal.SIGKILL)
        self.assertEqual(os.read(heard, 10), b"listening ")
        worker = self.start(TRY)
        self.assertEqual(set(os.read(heard, 2000).split()), {b"dialled"})
        os.rename(f"{self.platform.path}.aside", self.platform.path)
        self.assertEqual(self.platform.link(worker).hello.head["worker"], worker)

    def test_no_devices_can_be_made(self):
        self.assertEqual(self.attempt(self.worker(), "device", "/tmp/disk"), "refused: PermissionError")

    def test_strict_writes_only_to_its_own_temporary_directory_and_refuses_dangerous_calls(self):
        link = self.worker("strict")
        in_force = self.in_force()
        if "seccomp" not in in_force or "landlock" not in in_force:
            self.skipTest("this machine has no seccomp filters or no Landlock")
        for place in (os.path.join(self.directory, "outside"), "/tmp/outside"):
            self.assertRegex(self.attempt(link, "write", place), "refused")
        self.assertEqual(self.attempt(link, "write", os.path.join(self.data, "tmp/ep", link.worker, "file")), "written")
        self.assertEqual(self.attempt(link, "write", "/dev/null"), "written")
        self.assertEqual(self.attempt(link, "trace", self.attempt(link, "pid")), "refused: PermissionError")
        self.assertEqual(self.attempt(link, "uncover", self.data), "refused: PermissionError")

    def test_nothing_secret_of_others_is_in_a_workers_memory(self):
        self.worker(endpoint="other", env={"SECRET": "of-another-endpoint"})
        # The word arrives reversed: what is found are the copies that the search itself makes, as of any other word.
        self.write("prober.py", TRY + "\ndef run(word):\n    return searched(word[::-1])\n")
        prober = self.ready(None, module="prober", endpoint="prober", env={"OWN": "of-this-endpoint-here"})
        count = [prober.run(n, {"word": word[::-1]}).json for n, word in enumerate(WORDS, 1)]
        self.assertEqual(count[0], count[1])
        self.assertGreater(count[2], count[1])


if __name__ == "__main__":
    unittest.main()
