"""Fresh interpreters, and the environment that is all they and the zygotes inherit."""

from __future__ import annotations

import os
import signal
import socket

from svc._runtime.confine import namespaces
from svc._runtime.process import birth

_ROOT = os.path.abspath(__file__).rpartition("/svc/")[0]

# Nothing else of the platform's environment reaches a worker: it may hold secrets.
_INHERITED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")
_INHERITED_PREFIXES = ("LC_", "CUDA_", "NVIDIA_")


def clean_environment() -> None:
    for name in list(os.environ):
        if name not in _INHERITED and not name.startswith(_INHERITED_PREFIXES):
            del os.environ[name]


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
        birth.use_as_output(stdout, stderr)
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
