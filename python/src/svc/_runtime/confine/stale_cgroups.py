"""Groups that killed launchers left: what their workers had started may run on in them where no pid namespace ended it.

A launcher's directory is named `svc-<name>-<pid>`. Its workers' groups lie in it, and with version 2 a leaf `launcher` beside them,
in which the platform itself may be: that one is never emptied by force.
"""

from __future__ import annotations

import os
import signal

from svc._runtime.confine.kernel import kill_quietly

HOME_LEAF = "launcher"
WORKER_LEAF = "worker-"


class StaleGroups:
    """One dead launcher's directory. To be removed again and again, as a worker's group is: processes take a moment to end."""

    def __init__(self, home: str) -> None:
        self._home = home

    def remove(self) -> bool:
        """True when no group of a worker is left in it that can be emptied."""
        left = False
        for leaf in _leaves(self._home):
            directory = os.path.join(self._home, leaf)
            ends = leaf.startswith(WORKER_LEAF) and _kill_all(directory)
            left = not _removed(directory) and ends or left
        _removed(self._home)
        return not left


def find_stale(parent: str, name: str) -> list[StaleGroups]:
    """Those of launchers with the name `name` (which ends in our own pid) that are gone. What another user's platform left is for that
    user: nothing would come of looking after it here."""
    try:
        entries = os.listdir(parent)
    except OSError:
        return []
    homes = [os.path.join(parent, entry) for entry in entries if _is_stale(entry, name)]
    return [StaleGroups(home) for home in homes if os.access(home, os.W_OK)]


def outside_stale(directory: str, name: str) -> str:
    """`directory`, or what is around a dead launcher's groups when it is a leaf that this launcher moved us into."""
    while os.path.basename(directory) == HOME_LEAF and _is_stale(os.path.basename(os.path.dirname(directory)), name):
        directory = os.path.dirname(os.path.dirname(directory))
    return directory


def _is_stale(entry: str, name: str) -> bool:
    prefix = f"svc-{name.rpartition('-')[0]}-"
    pid = entry[len(prefix) :]
    return entry.startswith(prefix) and pid.isdigit() and not os.path.exists(f"/proc/{pid}")


def _leaves(home: str) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(home) if entry.is_dir()]
    except OSError:
        return []


def _kill_all(directory: str) -> bool:
    """False when some of it is in another pid namespace (listed as 0): that launcher may live, where it cannot be seen."""
    try:
        with open(os.path.join(directory, "cgroup.procs")) as file:
            pids = [int(line) for line in file]
    except FileNotFoundError:
        return True
    except OSError:
        return False
    if 0 in pids:
        return False
    try:
        with open(os.path.join(directory, "cgroup.kill"), "w") as file:
            file.write("1")
    except OSError:  # version 1: what is born meanwhile is found the next time
        for pid in pids:
            kill_quietly(pid, signal.SIGKILL)
    return True


def _removed(directory: str) -> bool:
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True
