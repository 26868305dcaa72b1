"""Memory and CPU of a worker: cgroup v2 where this user may make groups with controllers, else v1, else rlimits.

The launcher makes the group before the fork and the worker joins it before it runs any code of the user.
What is in force is reported in STARTED, never silently absent.
"""

from __future__ import annotations

import os

from svc._runtime.limits import WORKER_PIDS_MAX

_ROOT = "/sys/fs/cgroup"
_PERIOD_US = 100_000


class Group:
    """The cgroup directories of one worker. `kind` is "cgroup2", "cgroup1" or, without any, "rlimit" or "none"."""

    def __init__(self, kind: str, directories: list[str], memory: str | None, memory_bytes: int, vcpus: float) -> None:
        self.kind = kind
        self.directories = directories
        self._memory = memory
        self._memory_bytes = memory_bytes
        self._vcpus = vcpus

    def fits(self, start: dict) -> bool:
        """Whether its limits are those that this START asks for."""
        return (self._memory_bytes, self._vcpus) == _asked(start)

    def to_join(self) -> dict:
        """What `join` needs. A thread that moves itself by version 1's `tasks` takes no lock, where `cgroup.procs` makes
        it wait 5 to 20 ms for all processors; version 2 has nothing else."""
        name = "tasks" if self.kind == "cgroup1" else "cgroup.procs"
        files = [os.path.join(directory, name) for directory in self.directories]
        return {"joinFiles": files, "limits": self.kind, "memoryBytes": self._memory_bytes}

    def oom_killed(self) -> bool:
        """Whether the kernel killed something in it for want of memory."""
        if self._memory is None:
            return False
        name = "memory.events" if self.kind == "cgroup2" else "memory.oom_control"
        try:
            with open(os.path.join(self._memory, name)) as file:
                return any(line.startswith("oom_kill ") and int(line.split()[1]) > 0 for line in file)
        except OSError:
            return False

    def remove(self) -> bool:
        """True when nothing is left of it; False while processes still end."""
        for directory in list(self.directories):
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
        self._version2 = self._prepare_version2()
        self._version1 = {} if self._version2 else self._prepare_version1()

    def group(self, start: dict) -> Group:
        """A group with a START's limits; without cgroups one that is "rlimit", or "none" when no limit is asked for."""
        memory_bytes, vcpus = _asked(start)
        if not memory_bytes and not vcpus:
            return Group("none", [], None, 0, 0)
        self._made += 1
        leaf = f"worker-{self._made}"
        try:
            if self._version2:
                return self._group2(leaf, memory_bytes, vcpus)
            if self._version1.get("memory"):
                return self._group1(leaf, memory_bytes, vcpus)
        except OSError:
            pass
        return Group("rlimit" if memory_bytes else "none", [], None, memory_bytes, vcpus)

    def _group2(self, leaf: str, memory_bytes: int, vcpus: float) -> Group:
        directory = os.path.join(self._version2, leaf)
        os.mkdir(directory)
        if memory_bytes:
            _write(directory, "memory.max", str(memory_bytes))
            _try_write(directory, "memory.swap.max", "0")
            _try_write(directory, "memory.oom.group", "1")
        if vcpus:
            _try_write(directory, "cpu.max", f"{int(vcpus * _PERIOD_US)} {_PERIOD_US}")
        _try_write(directory, "pids.max", str(WORKER_PIDS_MAX))
        return Group("cgroup2", [directory], directory, memory_bytes, vcpus)

    def _group1(self, leaf: str, memory_bytes: int, vcpus: float) -> Group:
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
        return Group("cgroup1", made, memory, memory_bytes, vcpus)

    def _prepare_version2(self) -> str:
        """Our directory below our own group, with controllers for its children; "" when that cannot be.

        A group with processes may not hand controllers on, so the launcher moves itself into a leaf first.
        """
        own = _own_groups().get("")
        if own is None or not os.path.exists(os.path.join(_ROOT, "cgroup.controllers")):
            return ""
        base = os.path.join(_ROOT, own.lstrip("/"))
        try:
            with open(os.path.join(base, "cgroup.controllers")) as file:
                if "memory" not in file.read().split():
                    return ""
            home = os.path.join(base, f"svc-{self._name}")
            _remove_stale(base, self._name)
            os.makedirs(os.path.join(home, "launcher"), exist_ok=True)
            if base != _ROOT:
                for pid in _pids(base):
                    if pid == os.getpid():
                        _write(os.path.join(home, "launcher"), "cgroup.procs", "0")
            _write(base, "cgroup.subtree_control", "+memory")
            _write(home, "cgroup.subtree_control", "+memory")
            for controller in ("+cpu", "+pids"):
                for directory in (base, home):
                    _try_write(directory, "cgroup.subtree_control", controller)
            return home
        except OSError:
            return ""

    def _prepare_version1(self) -> dict[str, str]:
        found = {}
        own = _own_groups()
        for controller in ("memory", "cpu", "pids"):
            path = own.get(controller)
            if path is None:
                continue
            directory = os.path.join(_ROOT, controller, path.lstrip("/"), f"svc-{self._name}")
            try:
                os.makedirs(directory, exist_ok=True)
            except OSError:
                continue
            _remove_stale(os.path.dirname(directory), self._name)
            found[controller] = directory
        return found

    def close(self) -> None:
        """Removes our directories; they go only when every worker's has gone."""
        for directory in [self._version2, *self._version1.values()]:
            if directory:
                for name in ("launcher", ""):
                    try:
                        os.rmdir(os.path.join(directory, name))
                    except OSError:
                        pass


def _asked(start: dict) -> tuple[int, float]:
    return start.get("memoryBytes") or 0, start.get("vcpus") or 0


def _remove_stale(parent: str, name: str) -> None:
    """Directories of launchers that were killed: their names end in their pid."""
    prefix = f"svc-{name.rpartition('-')[0]}-"
    for entry in os.listdir(parent):
        pid = entry[len(prefix) :]
        if not entry.startswith(prefix) or not pid.isdigit() or os.path.exists(f"/proc/{pid}"):
            continue
        directory = os.path.join(parent, entry)
        for leaf in [*(os.path.join(directory, one.name) for one in os.scandir(directory) if one.is_dir()), directory]:
            try:
                os.rmdir(leaf)
            except OSError:
                pass


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


def join(files: list[str], kind: str, memory_bytes: int) -> None:
    """In the worker, before any code of the user runs."""
    for path in files:
        try:
            with open(path, "w") as file:
                file.write("0")
        except OSError:
            kind = "rlimit"
    if kind == "rlimit" and memory_bytes:
        import resource

        try:
            resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
        except (OSError, ValueError):
            pass
