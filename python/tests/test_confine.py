"""Without cgroups; and version 2 on the kernel's own hierarchy. Any controller stands for the memory controller where that one is taken."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import support
from support import alive, wait_until

from svc._runtime.confine import cgroups

MOUNTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
LAUNCHER = """
import json, os, sys
from svc._runtime.confine import cgroups
cgroups._ROOT, cgroups._REQUIRED = sys.argv[1], sys.argv[2]
sys.stdin.readline()
confinement = cgroups.Confinement(f"test-{os.getpid()}")
group = confinement.group({"memoryBytes": 0, "vcpus": 1}) if confinement._version2 else None
for stale in confinement.stale:
    while not stale.remove(): pass
print(json.dumps({"home": confinement._version2, "kind": group and group.kind, "groups": group and group.directories}), flush=True)
sys.stdin.readline()
if group:
    while not group.remove(): pass
    confinement.close()
"""


def hierarchy() -> tuple[str, str] | None:
    """Where version 2 is mounted and a controller that it has; None where this user may not make groups in it."""
    for mount in MOUNTS:
        try:
            with open(f"{mount}/cgroup.controllers") as file:
                controllers = file.read().split()
            with open(f"{mount}/cgroup.subtree_control", "a"):
                pass
            probe = f"{mount}/svc-probe-{os.getpid()}"
            os.mkdir(probe)
            os.rmdir(probe)
        except OSError:
            continue
        for controller in ("memory", *controllers):
            if controller in controllers:
                return mount, controller
    return None


FOUND = hierarchy()


class WithoutGroups(unittest.TestCase):
    def test_memory_is_an_rlimit_but_none_for_a_worker_with_a_gpu(self):
        root, cgroups._ROOT = cgroups._ROOT, "/proc/none"
        self.addCleanup(setattr, cgroups, "_ROOT", root)
        confinement = cgroups.Confinement("test-0")
        start = {"memoryBytes": 1 << 33, "vcpus": 1}
        group = confinement.group(start)
        self.assertEqual((group.kind, group.to_join()["memoryBytes"]), ("rlimit", 1 << 33))
        of_gpu = confinement.group({**start, "gpu": True})
        self.assertEqual((of_gpu.kind, of_gpu.to_join()["memoryBytes"]), ("none", 0))
        self.assertFalse(group.fits({**start, "gpu": True}))

    def test_nor_where_its_group_cannot_be_joined(self):
        group = cgroups.Group("cgroup1", ["/proc/none"], None, 1 << 33, 1, True)
        join = group.to_join()
        before = resource.getrlimit(resource.RLIMIT_DATA)
        cgroups.join(group.open_files(), join["limits"], join["memoryBytes"])
        self.assertEqual(resource.getrlimit(resource.RLIMIT_DATA), before)


@unittest.skipUnless(FOUND, "no cgroup v2 hierarchy here in which this user may make groups with a controller")
class Version2(unittest.TestCase):
    def setUp(self) -> None:
        self.mount, self.controller = FOUND
        with open(f"{self.mount}/cgroup.subtree_control") as file:
            had = self.controller in file.read().split()
        self.write(self.mount, "cgroup.subtree_control", f"+{self.controller}")
        if not had:
            self.addCleanup(self.write, self.mount, "cgroup.subtree_control", f"-{self.controller}")
        self.base = f"{self.mount}/svc-test-{os.getpid()}"
        os.mkdir(self.base)
        self.addCleanup(self.remove, self.base)

    def write(self, directory: str, name: str, text: str) -> None:
        with open(f"{directory}/{name}", "w") as file:
            file.write(text)

    def remove(self, directory: str) -> None:
        for entry in os.scandir(directory):
            if entry.is_dir():
                self.remove(entry.path)
        wait_until(lambda: not cgroups._pids(directory))
        os.rmdir(directory)

    def spawn(self, *command: str, **named) -> subprocess.Popen:
        """A process of the group, before it does anything."""
        process = subprocess.Popen(command, text=True, **named)
        self.addCleanup(self.end, process)
        self.write(self.base, "cgroup.procs", str(process.pid))
        return process

    def end(self, process: subprocess.Popen) -> None:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream:
                stream.close()

    def launcher(self) -> tuple[subprocess.Popen, dict]:
        process = self.spawn(
            sys.executable, "-c", LAUNCHER, self.mount, self.controller,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PYTHONPATH": str(support.SOURCE)},
        )  # fmt: skip
        process.stdin.write("\n")
        process.stdin.flush()
        return process, json.loads(process.stdout.readline())

    def test_workers_get_groups_although_the_platform_shares_the_launchers_own_group(self):
        platform = self.spawn("sleep", "60")
        process, made = self.launcher()
        self.assertEqual(made["home"], f"{self.base}/svc-test-{process.pid}")
        self.assertEqual(made["kind"], "cgroup2")
        self.assertEqual(cgroups._pids(self.base), [])
        self.assertEqual(sorted(cgroups._pids(f"{made['home']}/launcher")), sorted([platform.pid, process.pid]))
        with open(f"{made['home']}/cgroup.subtree_control") as file:
            self.assertIn(self.controller, file.read().split())

    def test_what_a_dead_worker_left_in_its_group_is_killed_whole_and_the_group_goes(self):
        process, made = self.launcher()
        (group,) = made["groups"]
        files = cgroups.Group("cgroup2", [group], None, 0, 1).open_files()
        stray = subprocess.Popen(["setsid", "sleep", "60"])
        self.addCleanup(stray.wait)
        self.addCleanup(stray.kill)
        for file in files:
            os.write(file, str(stray.pid).encode())
            os.close(file)
        self.assertEqual(cgroups._pids(group), [stray.pid])
        process.stdin.write("\n")
        process.stdin.flush()
        wait_until(lambda: not os.path.exists(group))
        self.assertFalse(alive(stray.pid))

    def test_what_workers_of_a_killed_launcher_had_started_is_killed_by_the_next_one_and_the_platform_is_not(self):
        platform = self.spawn("sleep", "60")
        killed, made = self.launcher()
        (group,) = made["groups"]
        stray = subprocess.Popen(["setsid", "sleep", "60"])
        self.addCleanup(self.end, stray)
        self.write(group, "cgroup.procs", str(stray.pid))
        self.end(killed)
        # The next launcher is born where the platform is.
        base, self.base = self.base, f"{made['home']}/launcher"
        process, again = self.launcher()
        self.base = base
        self.assertEqual(again["home"], f"{base}/svc-test-{process.pid}")
        self.assertFalse(os.path.exists(made["home"]))
        self.assertFalse(alive(stray.pid))
        self.assertEqual(sorted(cgroups._pids(f"{again['home']}/launcher")), sorted([platform.pid, process.pid]))

    def test_a_group_that_may_hand_on_no_controllers_is_left_as_it_was(self):
        sleeper = self.spawn("sleep", "60")
        controller, self.controller = self.controller, "none"
        _, made = self.launcher()
        self.controller = controller
        self.assertEqual(made["home"], "")
        self.assertIn(sleeper.pid, cgroups._pids(self.base))
        self.assertEqual([entry.name for entry in os.scandir(self.base) if entry.is_dir()], [])


if __name__ == "__main__":
    unittest.main()
