"""Namespaces of a zygote and its workers: processes, mounts and System V memory of their own.

Whoever forks a zygote enters them just before, in a process that does nothing else: its child is process 1 in there, and
all end when that ends. Made by root, or by any user within a user namespace, in which that user has its own number.
"""

from __future__ import annotations

import os

from svc._runtime.confine import kernel
from svc._runtime.confine.kernel import checked

ROOT, USER = "root", "user"
"""The two ways to make them."""

_NEW_MOUNTS, _NEW_IPC, _NEW_USER, _NEW_PIDS = 0x20000, 0x8000000, 0x10000000, 0x20000000
_MS_REC, _MS_PRIVATE = 16384, 1 << 18
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
_KEYCTL, _JOIN_SESSION_KEYRING = {"x86_64": 250, "aarch64": 219}, 1
_CAP_SETPCAP, _CAP_SYS_ADMIN = 8, 21


def usual_way() -> str:
    return ROOT if os.geteuid() == 0 else USER


def enter(way: str) -> None:
    """Nothing done to mounts spreads from here. The next child is process 1. Raises OSError."""
    flags = _NEW_MOUNTS | _NEW_IPC | _NEW_PIDS
    if way == USER:
        uid, gid = os.getuid(), os.getgid()
        checked(kernel.unshare(flags | _NEW_USER))
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    else:
        checked(kernel.unshare(flags))
    checked(kernel.mount("none", "/", None, _MS_REC | _MS_PRIVATE))
    keyctl = _KEYCTL.get(os.uname().machine)
    if keyctl is not None:
        kernel.syscall(keyctl, _JOIN_SESSION_KEYRING, 0, 0, 0)  # the user's own keys stay outside


def keep_rights_for_exec(way: str) -> None:
    """Another interpreter sets its view up itself; a user other than root would lose the right to do it. Raises OSError."""
    if way != USER:
        return
    rights = (_CAP_SETPCAP, _CAP_SYS_ADMIN)
    mask = sum(1 << number for number in rights)
    checked(kernel.capset(mask, mask))
    for number in rights:
        checked(kernel.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, number))
