"""What keeps a worker from the platform's files and from other workers. Three tiers:

    none      nothing
    standard  a mount namespace in which the platform's directories hold only what the endpoint needs, its code read-only;
              Landlock, so that it can neither signal nor trace a process outside; no way to new privileges
    strict    also: no capabilities, writing only below its own temporary directory, and a list of system calls refused

A zygote isolates itself before it imports user code. Each of its workers adds a Landlock domain of its own, which sets
it apart from its siblings. Works as root and, where user namespaces are allowed, as any user. What the machine lacks is
looked up once (`Isolation.find`) and told in STARTED; what should work and does not ends the boot.
"""

from __future__ import annotations

import os
import struct
import sys

from svc._runtime import kernel
from svc._runtime.kernel import checked

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
# Flags that statvfs reports with the numbers that mount takes: nosuid, nodev, noexec, noatime, nodiratime.
_ST_AS_MS, _ST_RELATIME, _MS_RELATIME = 2 | 4 | 8 | 1024 | 2048, 4096, 1 << 21
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP = 38, 24

# Capabilities a root worker keeps under "standard": those of files, ids and sockets, as containers have them.
_CAP_KEPT = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 31)
_CAP_LAST = 40

_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_ABI_MIN, _LANDLOCK_ABI_SCOPES = 3, 6
_FS_WRITE_FILE, _FS_REFER, _FS_TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_FS_MAKE_DEVICES = 1 << 6 | 1 << 11
_FS_CHANGES = _FS_WRITE_FILE | _FS_TRUNCATE | _FS_REFER | sum(1 << bit for bit in range(4, 13))
_SCOPE_ABSTRACT_SOCKET, _SCOPE_SIGNAL = 1, 2


class Isolation:
    """What this machine offers."""

    def __init__(self, namespace: bool, landlock: int, seccomp: bool) -> None:
        self._namespace = namespace
        self._landlock = landlock
        self._seccomp = seccomp

    @property
    def facts(self) -> list:
        """The arguments of this object, to send along."""
        return [self._namespace, self._landlock, self._seccomp]

    @classmethod
    def of(cls, start: dict) -> "Isolation":
        return cls(*start.get("offers", (False, 0, False)))

    @classmethod
    def find(cls) -> "Isolation":
        """Tries a namespace in a child of its own."""
        from svc._runtime import seccomp

        landlock = kernel.syscall(_LANDLOCK_CREATE, None, 0, 1)
        pid = os.fork()
        if pid == 0:
            try:
                _unshare()
                os._exit(0)
            except OSError:
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        return cls(status == 0, landlock if landlock >= _LANDLOCK_ABI_MIN else 0, seccomp.is_available())

    def in_force(self, start: dict) -> str:
        """In words, for STARTED: "namespace, landlock"; "" when nothing is."""
        tier = start.get("isolation", "none")
        if tier == "none":
            return ""
        names = ["namespace"] if self._namespace else []
        names += ["landlock"] if self._landlock else []
        names += ["seccomp"] if self._seccomp and tier == "strict" else []
        return ", ".join(names)

    def confine_endpoint(self, start: dict) -> None:
        """In the process that will import the endpoint's code. Raises OSError."""
        tier = start.get("isolation", "none")
        if tier == "none":
            return
        if self._namespace:
            _unshare()
            for directory in start.get("hidden") or []:
                _hide(directory, start)
        kernel.prctl(_PR_SET_NO_NEW_PRIVS, 1)
        _drop_capabilities(() if tier == "strict" or os.getuid() != 0 else _CAP_KEPT)
        if self._landlock:
            # With any right handled the kernel refuses changes of mounts, too.
            self._restrict(_FS_MAKE_DEVICES | _FS_REFER, [("/", _FS_REFER)])

    def confine_worker(self, start: dict) -> None:
        """In each worker, after `confine_endpoint`: apart from its siblings. Raises OSError."""
        tier = start.get("isolation", "none")
        if tier == "none":
            return
        if self._landlock and tier == "standard":
            self._restrict(_FS_REFER, [("/", _FS_REFER)])
        if self._landlock and tier == "strict":
            own = start.get("tempDir")
            rules = [("/dev", _FS_WRITE_FILE | _FS_TRUNCATE), ("/dev/shm", _FS_CHANGES)]
            self._restrict(_FS_CHANGES, rules + ([(own, _FS_CHANGES)] if own else []))
        if self._seccomp and tier == "strict":
            from svc._runtime import seccomp

            seccomp.refuse_dangerous_calls()

    def _restrict(self, handled: int, rules: list) -> None:
        scopes = _SCOPE_ABSTRACT_SOCKET | _SCOPE_SIGNAL if self._landlock >= _LANDLOCK_ABI_SCOPES else 0
        attributes = struct.pack("=QQQ", handled, 0, scopes)[: 24 if scopes else 8]
        ruleset = checked(kernel.syscall(_LANDLOCK_CREATE, attributes, len(attributes), 0))
        try:
            for path, rights in rules:
                if not os.path.exists(path):
                    continue
                beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
                try:
                    checked(kernel.syscall(_LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", rights, beneath), 0))
                finally:
                    os.close(beneath)
            checked(kernel.syscall(_LANDLOCK_RESTRICT, ruleset, 0))
        finally:
            os.close(ruleset)


def _unshare() -> None:
    """A mount namespace of our own, in which nothing done spreads. Without root also a user namespace."""
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:
        checked(kernel.unshare(_CLONE_NEWNS))
    else:
        checked(kernel.unshare(_CLONE_NEWUSER | _CLONE_NEWNS))
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    checked(kernel.mount("none", "/", None, _MS_REC | _MS_PRIVATE))


def _hide(directory: str, start: dict) -> None:
    """Covers a directory; below it only the endpoint's code (read-only), its temporary files and the socket are seen."""
    directory = os.path.realpath(directory)
    if not os.path.isdir(directory):
        return
    code = [*(start.get("paths") or []), os.path.dirname(start["handler"]), sys.prefix, sys.base_prefix, _PACKAGE]
    own = [os.path.dirname(path) for path in (start.get("tempDir"), start.get("socket")) if path]
    kept = []
    for path, flags in [(path, _MS_RDONLY) for path in code] + [(path, 0) for path in own]:
        path = os.path.realpath(path)
        if path.startswith(directory + "/") and os.path.isdir(path):
            kept.append((path, flags, os.open(path, os.O_PATH | os.O_CLOEXEC)))
    checked(kernel.mount("svc", directory, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755,size=1m"))
    for path, flags, descriptor in kept:
        os.makedirs(path, exist_ok=True)
        checked(kernel.mount(f"/proc/self/fd/{descriptor}", path, None, _MS_BIND | _MS_REC))
        if flags:
            checked(kernel.mount("none", path, None, _MS_REMOUNT | _MS_BIND | flags | _present_flags(path)))
        os.close(descriptor)
    checked(kernel.mount("none", directory, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV))


def _present_flags(path: str) -> int:
    """A remount must name the flags a mount has: without root they cannot be taken away."""
    present = os.statvfs(path).f_flag
    return present & _ST_AS_MS | (_MS_RELATIME if present & _ST_RELATIME else 0)


def _drop_capabilities(kept: tuple) -> None:
    for number in range(_CAP_LAST + 1):
        if number not in kept:
            kernel.prctl(_PR_CAPBSET_DROP, number)
    mask = sum(1 << number for number in kept)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    header = struct.pack("=Ii", 0x20080522, 0)
    checked(kernel.capset(header, struct.pack("=6I", low, low, low, high, high, high)))
