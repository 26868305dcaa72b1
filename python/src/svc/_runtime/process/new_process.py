"""New processes: fresh interpreters and forks, the environment that is all they inherit, and what each does before the
user's code, so that it leaves everything of its parent behind."""

from __future__ import annotations

import os
import signal
import socket
import sys

from svc._runtime.confine import cgroups, kernel, namespaces
from svc._runtime.confine.isolation import Isolation
from svc._runtime.confine.view import USER

_ROOT = os.path.abspath(__file__).rpartition("/svc/")[0]

# Nothing else of the platform's environment reaches a worker: it may hold secrets.
_INHERITED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")
_INHERITED_PREFIXES = ("LC_", "CUDA_", "NVIDIA_")


def clean_environment() -> None:
    for name in list(os.environ):
        if name not in _INHERITED and not name.startswith(_INHERITED_PREFIXES):
            del os.environ[name]
    # For getpass.getuser(), as in the caches of torch.compile: the system has no name for workers' users without namespaces.
    os.environ["USER"] = os.environ["LOGNAME"] = USER


def execute(python: str, module: str, channel: socket.socket, stdout: int, stderr: int, way: str = "") -> int:
    """Runs `module.main(3)` in a fresh interpreter, with the channel as descriptor 3; `way` is that of its namespaces.
    Returns the pid: of a child of this process. Raises OSError."""
    if way:
        return fork_apart(way, lambda: _run(python, module, channel, stdout, stderr, way))
    pid = os.fork()
    if pid == 0:
        _run(python, module, channel, stdout, stderr, way)
    return pid


def _run(python: str, module: str, channel: socket.socket, stdout: int, stderr: int, way: str) -> None:
    code = f"import sys; sys.path.insert(0, {_ROOT!r}); from {module} import main; main(3)"
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        high = os.dup(channel.fileno())
        use_as_output(stdout, stderr)
        os.dup2(high, 3)
        os.closerange(4, 65536)
        namespaces.keep_rights_for_exec(way)
        os.execv(python, [python, "-I", "-S", "-c", code])
    except BaseException as error:
        os.write(2, f"[svc] cannot run {python}: {error}\n".encode())
    finally:
        os._exit(127)


def fork_apart(way: str, run) -> int:
    """Forks twice: the process between enters new namespaces (none without a `way`) and ends at once, so that the one that
    calls `run` is process 1 in them and a child of the launcher, the subreaper. Returns its pid. Raises OSError."""
    read, write = os.pipe()
    try:
        between = os.fork()
        if between == 0:
            try:
                if way:
                    namespaces.enter(way)
                pid = os.fork()
                if pid == 0:
                    os.close(read)
                    os.close(write)
                    run()
                os.write(write, str(pid).encode())
            except OSError as error:
                os.write(write, f"-{error.strerror}".encode())
            finally:
                os._exit(0)
        os.close(write)
        write = -1
        os.waitpid(between, 0)
        # Only now has it its lasting parent, with whom it is to die.
        said = os.read(read, 200).decode()
    finally:
        os.close(read)
        if write >= 0:
            os.close(write)
    if not said.isdigit():
        raise OSError(0, said[1:] or "no process could be made")
    return int(said)


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
    """The worker's own temporary directory, in that of its endpoint. What is around them is the platform's to make: where it
    was removed with the platform, a worker that is late must not bring it back."""
    directory = start.get("tempDir")
    for path in (os.path.dirname(directory), directory) if directory else ():
        if not os.path.isdir(path):
            os.mkdir(path, 0o700)


def use_as_output(stdout: int, stderr: int) -> None:
    """stdin is nothing; 1 and 2 are the given pipes."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    for descriptor in {nothing, stdout, stderr} - {0, 1, 2}:
        os.close(descriptor)


def keep_standard_numbers() -> None:
    """Where imported code closed 0, 1 or 2, a worker's channel or pipe would get the number, and be lost in `use_as_output`."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one


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
