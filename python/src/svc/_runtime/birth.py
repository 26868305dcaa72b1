"""What a process does between fork (or exec) and the user's code: it leaves everything of its parent behind."""

from __future__ import annotations

import os
import signal
import sys

from svc._runtime import confine, kernel


def become_worker(start: dict, stdout: int, stderr: int) -> None:
    """Own session, own output, own limits, own temporary directory, fresh random state."""
    os.setsid()
    kernel.become_subreaper()
    kernel.die_with_parent()
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGURG):
        signal.signal(number, signal.SIG_DFL)
    use_as_output(stdout, stderr)
    confine.join(start.get("joinFiles") or [], start.get("limits", "none"), start.get("memoryBytes") or 0)
    directory = start.get("tempDir")
    if directory:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        os.environ["TMPDIR"] = directory
        if "tempfile" in sys.modules:
            sys.modules["tempfile"].tempdir = None


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
        os.environ[name] = str(value)


def fresh_main_module() -> None:
    """User code must not find this runtime as `__main__`."""
    module = type(sys)("__main__")
    sys.modules["__main__"] = module
    sys.argv = ["svc-worker"]
