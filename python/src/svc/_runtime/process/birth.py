"""What a process does between fork (or exec) and the user's code: it leaves everything of its parent behind."""

from __future__ import annotations

import os
import signal
import sys

from svc._runtime.confine import cgroups, kernel
from svc._runtime.confine.isolation import Isolation


def become_worker(limits: dict, stdout: int, stderr: int, group: list[int]) -> None:
    """Own session, own output, own limits, fresh random state; which worker it will be need not be known yet. `group` are
    the open files of its cgroup."""
    os.setsid()
    kernel.become_subreaper()
    kernel.die_with_parent()
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGURG):
        signal.signal(number, signal.SIG_DFL)
    use_as_output(stdout, stderr)
    cgroups.join(group, limits["limits"], limits["memoryBytes"])
    reseed()


def settle(start: dict, confined: bool = False, directory_later: bool = False) -> None:
    """What this very worker has of its own: variables, a temporary directory, bounds towards its siblings."""
    apply_environment(start.get("env") or {})
    directory = start.get("tempDir")
    if directory:
        if not directory_later:
            make_directory(start)
        os.environ["TMPDIR"] = directory
        if start.get("isolation") == "strict":
            os.environ["HOME"] = directory
        if "tempfile" in sys.modules:
            sys.modules["tempfile"].tempdir = None
    if not confined:
        Isolation.of(start).confine_worker(start)


def make_directory(start: dict) -> None:
    """The worker's own temporary directory."""
    directory = start.get("tempDir")
    if directory:
        os.makedirs(directory, mode=0o700, exist_ok=True)


def use_as_output(stdout: int, stderr: int) -> None:
    """stdin is nothing; 1 and 2 are the given pipes."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for descriptor in {nothing, stdout, stderr} - {0, 1, 2}:
        os.close(descriptor)


def reseed() -> None:
    """Forked workers must not draw the same numbers."""
    modules = sys.modules
    seed = int.from_bytes(os.urandom(8), "big")
    if "random" in modules:
        modules["random"].seed()
    if "numpy.random" in modules:
        modules["numpy.random"].seed(seed & 0xFFFFFFFF)
    if "ssl" in modules:
        modules["ssl"].RAND_add(os.urandom(32), 0.0)
    if "uuid" in modules:
        modules["uuid"]._last_timestamp = None
    if "torch" in modules and hasattr(modules["torch"], "manual_seed"):
        modules["torch"].manual_seed(seed & 0x7FFFFFFF)


def apply_environment(env: dict[str, str]) -> None:
    for name, value in env.items():
        if os.environ.get(name) != str(value):
            os.environ[name] = str(value)


def fresh_main_module() -> None:
    """User code must not find this runtime as `__main__`."""
    module = type(sys)("__main__")
    sys.modules["__main__"] = module
    sys.argv = ["svc-worker"]
