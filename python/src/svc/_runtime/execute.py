"""Fresh interpreters, and the environment that is all they and the zygotes inherit."""

from __future__ import annotations

import os
import signal
import socket

from svc._runtime import birth

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Nothing else of the platform's environment reaches a worker: it may hold secrets.
_INHERITED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")
_INHERITED_PREFIXES = ("LC_", "CUDA_", "NVIDIA_")


def clean_environment() -> None:
    for name in list(os.environ):
        if name not in _INHERITED and not name.startswith(_INHERITED_PREFIXES):
            del os.environ[name]


def execute(python: str, module: str, channel: socket.socket, stdout: int, stderr: int) -> int:
    """Forks and runs `module.main(3)` in a fresh interpreter, with the channel as descriptor 3. Returns the pid."""
    code = f"import sys; sys.path.insert(0, {_ROOT!r}); from {module} import main; main(3)"
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            high = os.dup(channel.fileno())
            birth.use_as_output(stdout, stderr)
            os.dup2(high, 3)
            os.closerange(4, 65536)
            os.execv(python, [python, "-I", "-S", "-c", code])
        except BaseException as error:
            os.write(2, f"[svc] cannot run {python}: {error}\n".encode())
        finally:
            os._exit(127)
    return pid
