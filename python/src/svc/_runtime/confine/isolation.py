"""What keeps a worker from the machine, the platform and other workers. Three tiers:

    none      nothing
    standard  namespaces with a view of their own (view.py), a user of their own where the platform runs as root, no
              capabilities; Landlock, so that nothing is written outside that view's own folders and no process outside
              can be signalled or traced
    strict    also: a worker writes only below its own temporary directory, and a list of system calls is refused

A zygote isolates itself before it imports user code. Each of its workers adds a Landlock domain of its own, which sets
it apart from its siblings. Works as root and, where user namespaces are allowed, as any user. What the machine lacks is
looked up once (`Isolation.find`) and told in WORKERS and STARTED; what should work and does not ends the boot.
"""

from __future__ import annotations

import os
import resource

from svc._runtime.confine import kernel, landlock, namespaces, view, volumes
from svc._runtime.confine.kernel import checked
from svc._runtime.limits import REVISION_PIDS_MAX

_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 4, 24, 38
_CAP_LAST = 40


class Isolation:
    """What this machine offers."""

    def __init__(self, way: str = "", landlock: int = 0, seccomp: bool = False, why: str = "") -> None:
        self._way = way
        """How namespaces are made; "" when they cannot be."""
        self._landlock = landlock
        self._seccomp = seccomp
        self._why = why
        """Why there are no namespaces."""

    @property
    def facts(self) -> list:
        """The arguments of this object, to send along."""
        return [self._way, self._landlock, self._seccomp, self._why]

    @classmethod
    def of(cls, start: dict) -> "Isolation":
        return cls(*start.get("offers", ()))

    @classmethod
    def find(cls) -> "Isolation":
        from svc._runtime.confine import seccomp

        way = namespaces.usual_way()
        why = _try_in_child(way)
        return cls("" if why else way, landlock.find_version(), seccomp.is_available(), why)

    def missing(self) -> list[str]:
        """What a worker here goes without, in words."""
        lacks = [f"namespaces ({self._why})"] if not self._way else []
        if not self._landlock:
            lacks.append("Landlock (Linux 6.2)")
        elif not landlock.has_scopes(self._landlock):
            lacks.append("Landlock's rule about signals (Linux 6.12)")
        if not self._seccomp:
            lacks.append("seccomp")
        return lacks

    @property
    def can_be_strict(self) -> bool:
        return bool(self._way and self._landlock and self._seccomp)

    def way(self, start: dict) -> str:
        """How to make the namespaces of this zygote; "" when it gets none: a container of its own stands in their place."""
        return "" if start.get("isolation", "none") == "none" or _is_alone(start) else self._way

    def in_force(self, start: dict) -> str:
        """In words, for STARTED: "namespaces, landlock"; "" when nothing is."""
        tier = start.get("isolation", "none")
        if tier == "none":
            return ""
        names = ["namespaces"] if self.way(start) else []
        names += [f"user {start['uid']}"] if self._has_user(start) else []
        names += ["landlock"] if self._landlock else []
        names += ["seccomp"] if self._seccomp and tier == "strict" else []
        missing = [] if _is_alone(start) else self.missing()
        return ", ".join(names) + (f"; missing: {', '.join(missing)}" if missing else "")

    def confine_endpoint(self, start: dict) -> None:
        """In the process that will import the endpoint's code, in its namespaces. Raises OSError."""
        tier = start.get("isolation", "none")
        if tier == "none":
            return
        uid = self.user(start)
        if start.get("volumes") and not self.way(start):
            raise OSError(0, "its volumes need namespaces")
        if self.way(start):
            os.environ["HOME"] = view.build(start, uid)
        kernel.prctl(_PR_SET_NO_NEW_PRIVS, 1)
        groups = start.get("groups") or []
        _give_up_rights(uid, [start.get("gid", uid), *groups])
        if groups:
            os.umask(0o002)  # Other endpoints, other users of these groups, write what this one made.
        if self.way(start) == namespaces.USER and not str(start.get("limits")).startswith("cgroup"):
            # The kernel counts these for each user namespace, so neither with the user's own nor with other endpoints'.
            resource.setrlimit(resource.RLIMIT_NPROC, (REVISION_PIDS_MAX, REVISION_PIDS_MAX))
        if self._landlock:
            landlock.restrict(self._landlock, *self._rules(start))
        if start.get("holdsPorts") and self._seccomp and not self._has_user(start) and not _is_alone(start):
            from svc._runtime.confine import seccomp

            seccomp.keep_ports_unshared()

    def confine_worker(self, start: dict) -> None:
        """In each worker, after `confine_endpoint`: apart from its siblings. Raises OSError."""
        tier = start.get("isolation", "none")
        if tier == "none":
            return
        if self._landlock and tier == "standard":
            landlock.set_apart(self._landlock)
        if self._landlock and tier == "strict":
            own = start.get("tempDir")
            lent = [*(start.get("writable") or []), *volumes.paths_of(start)]
            rules = [*_SHARED_WRITES, *((path, landlock.CHANGES_BUT_DEVICES) for path in lent)]
            rules += [(own, landlock.CHANGES_BUT_DEVICES)] if own else []
            landlock.restrict(self._landlock, landlock.CHANGES, rules)
        if self._seccomp and tier == "strict":
            from svc._runtime.confine import seccomp

            seccomp.refuse_dangerous_calls()

    def user(self, start: dict) -> int:
        """The number of the user that the processes of this START run as."""
        return start["uid"] if self._has_user(start) else os.getuid()

    def _has_user(self, start: dict) -> bool:
        """Only the own view leads another user to files that lie in folders of root's."""
        return self.way(start) == namespaces.ROOT and bool(start.get("uid"))

    def _rules(self, start: dict) -> tuple[int, list]:
        """For the endpoint as a whole: where it may write and, where it has no view of its own, what it may read."""
        writable = view.writable_paths(start)
        if _is_alone(start):
            return landlock.CHANGES & ~landlock.CHANGES_BUT_DEVICES | landlock.REFER, [("/", landlock.REFER)]
        handled = landlock.CHANGES
        rules = [*_SHARED_WRITES, *((path, landlock.CHANGES_BUT_DEVICES) for path in writable)]
        if self.way(start):
            rules += [(path, landlock.CHANGES_BUT_DEVICES) for path in (*view.TEMPORARY, *volumes.paths_of(start))]
        elif start.get("hidden"):
            handled |= landlock.READING
            rules += landlock.rules_to_read(view.hidden_folders(start), view.needed_paths(start) + writable)
        return handled, rules


def _is_alone(start: dict) -> bool:
    """In a container of its own."""
    return "/" in (start.get("writable") or [])


_SHARED_WRITES = (
    ("/dev", landlock.FILES_ONLY),
    ("/dev/shm", landlock.CHANGES_BUT_DEVICES),
    ("/proc", landlock.FILES_ONLY),
)


def _give_up_rights(uid: int, groups: list[int]) -> None:
    """From now on it is that user, in those groups, and has no capabilities. Raises OSError."""
    for number in range(_CAP_LAST + 1):
        kernel.prctl(_PR_CAPBSET_DROP, number)
    if uid != os.getuid():
        os.setgroups(groups)
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    checked(kernel.capset(0))
    # Else /proc/self would belong to root.
    kernel.prctl(_PR_SET_DUMPABLE, 1)


def _try_in_child(way: str) -> str:
    """Why namespaces with a view of their own cannot be had here; "" when they can."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            try:
                namespaces.enter(way)
                inner = os.fork()
                if inner == 0:
                    view.build({}, os.getuid())
                    os._exit(0)
                failed = os.waitpid(inner, 0)[1] != 0
            except OSError as error:
                os.write(write, str(error).encode())
                failed = True
            os._exit(1 if failed else 0)
        finally:
            os._exit(1)
    os.close(write)
    _, status = os.waitpid(pid, 0)
    said = os.read(read, 500).decode()
    os.close(read)
    return "" if status == 0 else said or "they cannot be set up"
