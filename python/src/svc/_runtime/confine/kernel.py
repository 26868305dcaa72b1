"""The few Linux calls that the standard library lacks, and what /proc says about children."""

from __future__ import annotations

import os
import signal
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MOUNT_SETATTR, _AT_FDCWD = 442, -100
_OPEN_TREE, _OPEN_TREE_CLONE, _MOVE_MOUNT, _MOVE_EMPTY_PATH = 428, 1, 429, 4
_AT_RECURSIVE, _AT_SYMLINK_NOFOLLOW = 0x8000, 0x100
_SECCOMP, _SET_MODE_FILTER = {"x86_64": 317, "aarch64": 277}, 1
_PIVOT_ROOT, _MNT_DETACH = {"x86_64": 155, "aarch64": 41}, 2

try:
    import ctypes

    _libc = ctypes.CDLL(None, use_errno=True)
    _prctl = _libc.prctl
    _long = ctypes.c_long
    _libc.syscall.restype = _long
except (ImportError, OSError, AttributeError):
    _prctl = None


def become_subreaper() -> bool:
    """Orphaned descendants become children of this process, whatever they did (double fork, setsid)."""
    return _prctl is not None and _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def die_with_parent() -> None:
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def ended_children(wake_read: int) -> Iterator[tuple[int, int]]:
    """Reaps every child that has ended: its pid and exit code. `wake_read` is the signal pipe, which is emptied first."""
    try:
        while os.read(wake_read, 512):
            pass
    except BlockingIOError:
        pass
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def raise_descriptor_limit() -> bool:
    """To what the hard limit allows; False when it was there already."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return True


def proportional_bytes(pid: int) -> int:
    """Memory of the process, pages that it shares divided among those who share them; 0 when it cannot be read."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:")), 0)
    except OSError:
        return 0


def resident_bytes(pid: int) -> int:
    """Pages of the process that are in memory, shared ones too; 0 when it cannot be read."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


def checked(result: int) -> int:
    """The result of one of the calls below; raises OSError when it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def prctl(option: int, value: int, further: int = 0) -> int:
    return -1 if _prctl is None else _prctl(option, _long(value), _long(further), _long(0), _long(0))


def syscall(number: int, *arguments) -> int:
    """Integers and bytes (passed as a pointer) as arguments."""
    if _prctl is None:
        return -1
    return _libc.syscall(_long(number), *(_long(a) if isinstance(a, int) else a for a in arguments))


def unshare(flags: int) -> int:
    return _libc.unshare(flags)


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> int:
    return _libc.mount(
        source.encode(), target.encode(), kind.encode() if kind else None, ctypes.c_ulong(flags), options.encode()
    )


def change_mount(target: str, flags: int, added: int, removed: int) -> int:
    """mount_setattr: attributes of a mount, with _AT_RECURSIVE of all below it."""
    attributes = struct.pack("=QQQQ", added, removed, 0, 0)
    return syscall(_MOUNT_SETATTR, _AT_FDCWD, target.encode(), flags, attributes, len(attributes))


def copy_mount(path: str) -> int:
    """An open copy of what is mounted at `path` and below, to be put elsewhere."""
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | _AT_SYMLINK_NOFOLLOW | os.O_CLOEXEC
    return syscall(_OPEN_TREE, _AT_FDCWD, path.encode(), flags)


def put_mount(copy: int, target: str) -> int:
    return syscall(_MOVE_MOUNT, copy, b"", _AT_FDCWD, target.encode(), _MOVE_EMPTY_PATH)


def change_root() -> int:
    """pivot_root: the folder that this process is in, a mount of its own, is the root from now on, and the old one is gone."""
    if syscall(_PIVOT_ROOT.get(os.uname().machine, -1), b".", b".") < 0:
        return -1
    return _libc.umount2(b".", _MNT_DETACH)


def capset(effective: int, inheritable: int = 0) -> int:
    """Sets of bits, a bit a capability; what is permitted is what is effective."""
    low, high = 0xFFFFFFFF, 32
    words = (effective & low, effective & low, inheritable & low, effective >> high, effective >> high, inheritable >> high)
    return _libc.capset(struct.pack("=Ii", 0x20080522, 0), struct.pack("=6I", *words))


def set_filter(code: bytes, steps: int, flags: int) -> int:
    """A program for seccomp, in force from now on."""
    buffer = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]

    program = Program(steps, ctypes.cast(buffer, ctypes.c_void_p))
    number = _SECCOMP.get(os.uname().machine, -1)
    return _libc.syscall(_long(number), _long(_SET_MODE_FILTER), _long(flags), ctypes.byref(program))


def is_stopped(pid: int) -> bool:
    """By SIGSTOP or the like; not by a debugger that looks at it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"T"
    except (OSError, IndexError):
        return False


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


def descendants_of(pid: int) -> list[int]:
    found: list[int] = []
    level = children_of(pid)
    while level:
        found += level
        level = [below for each in level for below in children_of(each) if below not in found]
    return found


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
