"""The few Linux calls that the standard library lacks, and what /proc says about children."""

from __future__ import annotations

import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

try:
    import ctypes

    _prctl = ctypes.CDLL(None, use_errno=True).prctl
except (ImportError, OSError, AttributeError):
    _prctl = None


def become_subreaper() -> bool:
    """Orphaned descendants become children of this process, whatever they did (double fork, setsid)."""
    return _prctl is not None and _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def die_with_parent() -> None:
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def children_of(pid: int) -> list[int]:
    """Direct children of a process, zombies included."""
    try:
        found = []
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found += [int(word) for word in file.read().split()]
        return found
    except OSError:
        return _children_by_scan(pid)


def _children_by_scan(pid: int) -> list[int]:
    found = []
    try:
        entries = os.listdir("/proc")
    except OSError:
        return found
    for entry in entries:
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    stat = file.read()
            except OSError:
                continue
            # The command's name may hold anything, so fields are counted from its closing bracket.
            if int(stat[stat.rfind(b")") + 2 :].split()[1]) == pid:
                found.append(int(entry))
    return found


def kill_quietly(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def kill_descendants(pid: int) -> int:
    """SIGKILL to all below `pid`, not to `pid` itself; stopped first, so that none can fork. Returns how many."""
    below: list[int] = []
    level = children_of(pid)
    while level:
        for child in level:
            kill_quietly(child, signal.SIGSTOP)
        below += level
        level = [grandchild for child in level for grandchild in children_of(child) if grandchild not in below]
    for child in below:
        kill_quietly(child, signal.SIGKILL)
    return len(below)
