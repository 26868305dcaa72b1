"""Memory and CPU of a worker: cgroup v2 where this user may make groups with controllers, else v1, else rlimits.

The launcher makes the group before the fork and the worker joins it before it runs any code of the user. A worker with
a GPU has no rlimit: CUDA reserves far more memory than it uses, and would not start.
What is in force is reported in STARTED, never silently absent.
"""

from __future__ import annotations

import os

from svc._runtime.confine.stale_cgroups import HOME_LEAF, WORKER_LEAF, StaleGroups, find_stale, outside_stale
from svc._runtime.limits import WORKER_PIDS_MAX

_ROOT = "/sys/fs/cgroup"
_PERIOD_US = 100_000
_REQUIRED = "memory"
"""The controller without which version 2 is of no use."""
_MOVE_ROUNDS = 20
# Of version 2 and of version 1.
_OOM_FILES = ("memory.events", "memory.oom_control")


class Group:
    """The cgroup directories of one worker. `kind` is "cgroup2", "cgroup1" or, without any, "rlimit" or "none"."""

    def __init__(
        self, kind: str, directories: list[str], memory: str | None, memory_bytes: int, vcpus: float, gpu: bool = False
    ) -> None:
        self.kind = kind
        self.directories = directories
        self._memory = memory
        """Directory in which the kernel counts whom it killed for want of memory: its own, or one that it shares."""
        self._killed_before = 0 if directories else _oom_kills(memory)
        self._memory_bytes = memory_bytes
        self._vcpus = vcpus
        self._gpu = gpu

    def fits(self, start: dict) -> bool:
        """Whether its limits are those that this START asks for."""
        return (self._memory_bytes, self._vcpus, self._gpu) == _asked(start)

    def to_join(self) -> dict:
        """What `join` needs besides the open files."""
        return {"limits": self.kind, "memoryBytes": 0 if self._gpu else self._memory_bytes}

    def open_files(self) -> list[int]:
        """For `join`, to be closed here when they are sent. The kernel asks who opened them: the worker may be another user,
        and does not see them. A thread that moves itself by version 1's `tasks` takes no lock, where `cgroup.procs` makes
        it wait 5 to 20 ms for all processors; version 2 has nothing else."""
        name = "tasks" if self.kind == "cgroup1" else "cgroup.procs"
        opened: list[int] = []
        try:
            for directory in self.directories:
                opened.append(os.open(os.path.join(directory, name), os.O_WRONLY | os.O_CLOEXEC))
        except OSError:
            for descriptor in opened:
                os.close(descriptor)
            return []
        return opened

    def oom_killed(self) -> bool:
        """Whether the kernel killed something in it for want of memory."""
        return _oom_kills(self._memory) > self._killed_before

    def remove(self) -> bool:
        """Its worker has ended. True when nothing is left of it; False while processes still end."""
        for directory in list(self.directories):
            if self.kind == "cgroup2":
                _try_write(directory, "cgroup.kill", "1")  # what got away from its worker
            try:
                os.rmdir(directory)
            except FileNotFoundError:
                pass
            except OSError:
                continue
            self.directories.remove(directory)
        return not self.directories


class Confinement:
    """Makes groups below the launcher's own. Looks once which kind this machine offers."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._made = 0
        self.stale: list[StaleGroups] = []
        """Of launchers that were killed, to be removed."""
        self._version2 = self._prepare_version2()
        self._version1 = {} if self._version2 else self._prepare_version1()
        self._shared = _own_memory_directory()

    def group(self, start: dict) -> Group:
        """A group with a START's limits; without cgroups one that is "rlimit", or "none" where that cannot be."""
        memory_bytes, vcpus, gpu = _asked(start)
        if not memory_bytes and not vcpus:
            return Group("none", [], None, 0, 0)
        self._made += 1
        leaf = f"{WORKER_LEAF}{self._made}"
        try:
            if self._version2:
                return self._group2(leaf, memory_bytes, vcpus, gpu)
            if self._version1.get("memory"):
                return self._group1(leaf, memory_bytes, vcpus, gpu)
        except OSError:
            pass
        kind = "rlimit" if memory_bytes and not gpu else "none"
        return Group(kind, [], self._shared, memory_bytes, vcpus, gpu)

    def _group2(self, leaf: str, memory_bytes: int, vcpus: float, gpu: bool) -> Group:
        directory = os.path.join(self._version2, leaf)
        os.mkdir(directory)
        if memory_bytes:
            _write(directory, "memory.max", str(memory_bytes))
            _try_write(directory, "memory.swap.max", "0")
            _try_write(directory, "memory.oom.group", "1")
        if vcpus:
            _try_write(directory, "cpu.max", f"{int(vcpus * _PERIOD_US)} {_PERIOD_US}")
        _try_write(directory, "pids.max", str(WORKER_PIDS_MAX))
        return Group("cgroup2", [directory], directory, memory_bytes, vcpus, gpu)

    def _group1(self, leaf: str, memory_bytes: int, vcpus: float, gpu: bool) -> Group:
        made = []
        memory = None
        for controller, parent in self._version1.items():
            directory = os.path.join(parent, leaf)
            os.mkdir(directory)
            made.append(directory)
            if controller == "memory" and memory_bytes:
                memory = directory
                _write(directory, "memory.limit_in_bytes", str(memory_bytes))
                _try_write(directory, "memory.memsw.limit_in_bytes", str(memory_bytes))
            elif controller == "cpu" and vcpus:
                _try_write(directory, "cpu.cfs_period_us", str(_PERIOD_US))
                _try_write(directory, "cpu.cfs_quota_us", str(int(vcpus * _PERIOD_US)))
            elif controller == "pids":
                _try_write(directory, "pids.max", str(WORKER_PIDS_MAX))
        return Group("cgroup1", made, memory, memory_bytes, vcpus, gpu)

    def _prepare_version2(self) -> str:
        """Our directory below our own group, with controllers for its children; "" when that cannot be.

        A group with processes may hand on no controllers, except at the root of the machine. So what is in our group moves
        into a leaf first: in a container or a service of systemd that is the platform with all that belongs to it.
        """
        own = _own_directory2()
        if own is None:
            return ""
        base = outside_stale(own, self._name)
        home = os.path.join(base, f"svc-{self._name}")
        leaf = os.path.join(home, HOME_LEAF)
        moved = False
        try:
            with open(os.path.join(base, "cgroup.controllers")) as file:
                if _REQUIRED not in file.read().split():
                    return ""
            self.stale += find_stale(base, self._name)
            os.makedirs(leaf, exist_ok=True)
            if os.path.exists(os.path.join(base, "cgroup.type")):  # not the machine's root
                moved = True
                for source in {base, own}:
                    _move_all(source, leaf)
            for directory in (base, home):
                _write(directory, "cgroup.subtree_control", f"+{_REQUIRED}")
                for controller in ("cpu", "pids"):
                    _try_write(directory, "cgroup.subtree_control", f"+{controller}")
            return home
        except OSError:
            if moved:
                _move_all(leaf, own)
            for directory in (leaf, home):
                _try_remove(directory)
            return ""

    def _prepare_version1(self) -> dict[str, str]:
        found = {}
        own = _own_groups()
        for controller in ("memory", "cpu", "pids"):
            path = own.get(controller)
            if path is None:
                continue
            directory = os.path.join(_ROOT, controller, path.lstrip("/"), f"svc-{self._name}")
            self.stale += find_stale(os.path.dirname(directory), self._name)
            try:
                os.makedirs(directory, exist_ok=True)
            except OSError:
                continue
            found[controller] = directory
        return found

    def close(self) -> None:
        """Removes our directories; they go only when every worker's has gone."""
        for directory in [self._version2, *self._version1.values()]:
            if directory:
                for name in (HOME_LEAF, ""):
                    _try_remove(os.path.join(directory, name))


def _own_memory_directory() -> str | None:
    """Where this process's own group shows: a container's is mounted in the place of the root."""
    own = _own_groups()
    for controller in ("memory", ""):
        for path in (own.get(controller), "/"):
            directory = os.path.join(_ROOT, controller, (path or "/").lstrip("/"))
            if any(os.path.exists(os.path.join(directory, name)) for name in _OOM_FILES):
                return directory
    return None


def _oom_kills(directory: str | None) -> int:
    for name in _OOM_FILES if directory else ():
        try:
            with open(os.path.join(directory, name)) as file:
                return sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
        except OSError:
            pass
    return 0


def _asked(start: dict) -> tuple[int, float, bool]:
    return start.get("memoryBytes") or 0, start.get("vcpus") or 0, bool(start.get("gpu"))


def _own_groups() -> dict[str, str]:
    """Controller (or "" for version 2) to path, from /proc/self/cgroup."""
    found = {}
    try:
        with open("/proc/self/cgroup") as file:
            for line in file:
                _, controllers, path = line.rstrip("\n").split(":", 2)
                for controller in controllers.split(","):
                    found[controller] = path
    except (OSError, ValueError):
        pass
    return found


def _own_directory2() -> str | None:
    """Of version 2, as it shows here: a container may see its own group as the root. None when there is none."""
    own = _own_groups().get("")
    if own is None or not os.path.exists(os.path.join(_ROOT, "cgroup.controllers")):
        return None
    directory = os.path.join(_ROOT, own.lstrip("/"))
    return directory if os.path.isdir(directory) and ".." not in own.split("/") else _ROOT


def _move_all(source: str, target: str) -> None:
    """Moves every process of one group to another, also those that are born meanwhile. What cannot move stays."""
    for _ in range(_MOVE_ROUNDS):
        pids = _pids(source)
        for pid in pids:
            _try_write(target, "cgroup.procs", str(pid))
        if not pids:
            return


def _try_remove(directory: str) -> None:
    try:
        os.rmdir(directory)
    except OSError:
        pass


def _pids(directory: str) -> list[int]:
    with open(os.path.join(directory, "cgroup.procs")) as file:
        return [int(line) for line in file]


def _write(directory: str, name: str, text: str) -> None:
    with open(os.path.join(directory, name), "w") as file:
        file.write(text)


def _try_write(directory: str, name: str, text: str) -> None:
    try:
        _write(directory, name, text)
    except OSError:
        pass


def join(files: list[int], kind: str, memory_bytes: int) -> None:
    """In the worker, before any code of the user runs. `memory_bytes` is for the rlimit where no group can be joined."""
    if kind.startswith("cgroup") and not files:
        kind = "rlimit"
    for descriptor in files:
        try:
            os.write(descriptor, b"0")
        except OSError:
            kind = "rlimit"
        os.close(descriptor)
    if kind == "rlimit" and memory_bytes:
        import resource

        try:
            resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
        except (OSError, ValueError):
            pass
