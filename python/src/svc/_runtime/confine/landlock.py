"""Landlock: rules that a process lays on itself and on all that it starts, and that nothing takes off again."""

from __future__ import annotations

import os
import struct

from svc._runtime.confine import kernel
from svc._runtime.confine.kernel import checked

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ABI_MIN, _ABI_SCOPES = 3, 6
_WRITE_FILE, _READ_FILE, _READ_DIR, REFER, _TRUNCATE = 1 << 1, 1 << 2, 1 << 3, 1 << 13, 1 << 14
_MAKE_DEVICES = 1 << 6 | 1 << 11
_SCOPE_ABSTRACT_SOCKET, _SCOPE_SIGNAL = 1, 2

FILES_ONLY = _WRITE_FILE | _TRUNCATE
"""Writing to what is there."""
CHANGES = FILES_ONLY | REFER | sum(1 << bit for bit in range(4, 13))
"""Every change of files and folders."""
CHANGES_BUT_DEVICES = CHANGES & ~_MAKE_DEVICES
READING = _READ_FILE | _READ_DIR


def find_version() -> int:
    """0 where it cannot do what is asked of it here."""
    version = kernel.syscall(_CREATE, None, 0, 1)
    return version if version >= _ABI_MIN else 0


def has_scopes(version: int) -> bool:
    """Whether signals and abstract sockets end at the domain's border."""
    return version >= _ABI_SCOPES


def set_apart(version: int) -> None:
    """A domain of its own and nothing else: no trace and, with scopes, no signal to a process outside. Raises OSError."""
    restrict(version, REFER, [("/", REFER)])


def restrict(version: int, handled: int, rules: list) -> None:
    """`handled` are the rights that are refused but where a rule (path, rights) gives them. With any right handled the kernel
    refuses changes of mounts, too. Raises OSError."""
    scopes = _SCOPE_ABSTRACT_SOCKET | _SCOPE_SIGNAL if has_scopes(version) else 0
    attributes = struct.pack("=QQQ", handled, 0, scopes)[: 24 if scopes else 8]
    ruleset = checked(kernel.syscall(_CREATE, attributes, len(attributes), 0))
    try:
        for path, rights in rules:
            _add(ruleset, path, rights & handled)
        checked(kernel.syscall(_RESTRICT, ruleset, 0))
    finally:
        os.close(ruleset)


def _add(ruleset: int, path: str, rights: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # not there, or not to be reached anyway
    try:
        if not os.path.isdir(f"/proc/self/fd/{beneath}"):
            rights &= FILES_ONLY | _READ_FILE
        if rights:
            checked(kernel.syscall(_ADD, ruleset, 1, struct.pack("=Qi", rights, beneath), 0))
    finally:
        os.close(beneath)


def rules_to_read(hidden: list[str], kept: list[str]) -> list:
    """Everything may be read but what lies in `hidden`, real paths; of that again what is `kept`. A rule covers all below its path, so
    the folders on the way to something hidden are taken entry by entry."""
    rules: list = [(path, READING) for path in kept]
    _walk("/", hidden, rules)
    return rules


def _walk(folder: str, hidden: list[str], rules: list) -> None:
    for entry in os.scandir(folder):
        if entry.path in hidden or entry.is_symlink():
            continue
        if _is_private(entry, folder):
            continue
        on_the_way = any(path.startswith(entry.path + "/") for path in hidden)
        if (on_the_way or entry.path == "/etc") and entry.is_dir():
            _walk(entry.path, hidden, rules)
        else:
            rules.append((entry.path, READING))


def _is_private(entry: os.DirEntry, folder: str) -> bool:
    """Files of /etc that only root reads: a worker that has to stay root must not either."""
    return folder == "/etc" and not entry.stat(follow_symlinks=False).st_mode & 0o004
