"""What dead workers leave behind: processes, cgroups, temporary directories. Of workers whose launcher was killed too, the next launcher
removes the groups, with what runs in them, and then the directories.

Launcher and zygote are child subreapers (a zygote with namespaces is process 1) and know their own children, and every
worker is a subreaper too: what a dead worker left (also after a double fork and setsid) turns up with its zygote or with the
launcher as an unknown child and is killed. It works without namespaces and without being root.
"""

from __future__ import annotations

import os
import signal
from time import monotonic

from svc._runtime.confine import kernel

_LOOK_AGAIN_S = 0.01
_FORK_AGAIN_S = 1.0


class Remains:
    """`is_known(pid)` tells the children that are meant to be. `look_at` is when to call `sweep` next, or None."""

    def __init__(self, is_known) -> None:
        self._is_known = is_known
        self._groups: list = []
        self._cleaners: set[int] = set()
        self._directories_after: list[str] = []
        """Removed when no group is left: somebody may still write in them."""
        self.look_at: float | None = None

    def sweep(self) -> None:
        strays = [
            pid for pid in kernel.children_of(os.getpid()) if pid not in self._cleaners and not self._is_known(pid)
        ]
        for pid in strays:
            kernel.kill_quietly(pid, signal.SIGSTOP)
            kernel.kill_descendants(pid)
            kernel.kill_quietly(pid, signal.SIGKILL)
        self._groups = [group for group in self._groups if not group.remove()]
        self.look_at = monotonic() + _LOOK_AGAIN_S if strays or self._groups else None
        if not self._groups and self._directories_after:
            directories, self._directories_after = self._directories_after, []
            self._remove_in_child(directories)

    def wait_ms(self) -> float | None:
        return None if self.look_at is None else max(0.0, (self.look_at - monotonic()) * 1000) + 0.5

    def on_time(self) -> None:
        if self.look_at is not None and monotonic() >= self.look_at:
            self.sweep()

    def remove_group(self, group) -> None:
        """A cgroup can go only when its last process has."""
        if not group.remove():
            self._groups.append(group)
            self.look_at = self.look_at or monotonic() + _LOOK_AGAIN_S

    def remove_directory(self, directory: str) -> None:
        try:
            os.rmdir(directory)
        except FileNotFoundError:
            pass
        except OSError:
            self._remove_in_child([directory])

    def remove_earlier(self, groups: list, root: str | None) -> None:
        """What workers of earlier launchers left. `root` has a folder for each endpoint, which stays, and in it those of workers."""
        for group in groups:
            self.remove_group(group)
        self._directories_after = _folders_below(root) if root else []
        self.sweep()

    def _remove_in_child(self, directories: list[str]) -> None:
        """The launcher never waits for a disk. Where no process can be made they wait until one can."""
        try:
            pid = os.fork()
        except OSError:
            self._directories_after += directories
            self.look_at = self.look_at or monotonic() + _FORK_AGAIN_S
            return
        if pid == 0:
            try:
                import shutil

                for directory in directories:
                    shutil.rmtree(directory, ignore_errors=True)
            finally:
                os._exit(0)
        self._cleaners.add(pid)

    def reaped(self, pid: int) -> None:
        self._cleaners.discard(pid)


def _folders_below(root: str) -> list[str]:
    """Folders in the folders of `root`. A link is none: workers could have made it."""
    found = []
    try:
        for around in os.scandir(root):
            if around.is_dir(follow_symlinks=False):
                found += [entry.path for entry in os.scandir(around) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        pass
    return found
