"""A command of the endpoint's own: the worker starts it, reads its output, notices its end and ends it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque

from svc._runtime.limits import (
    PIPE_READ_BYTES,
    SERVER_LAST_LINE_MAX_BYTES,
    SERVER_LAST_LINES,
    SERVER_OUTPUT_READS_MAX,
    SERVER_STOP_GRACE_S,
)
from svc._runtime.work.output import LineBuffer
from svc._values.failure import BootFailure

_ROOT = os.path.abspath(__file__).rpartition("/svc/")[0]


class CommandProcess:
    """`paths`: where the endpoint's code and packages are, its folder first."""

    def __init__(self, command: list[str], paths: list[str]) -> None:
        self._command = command
        self._paths = paths
        self._process: subprocess.Popen | None = None
        self._last: deque[bytes] = deque(maxlen=SERVER_LAST_LINES)
        self.exited = asyncio.Event()

    def spawn(self, worker, command: list[str], own: dict[str, str]) -> None:
        """`own`: variables beside those of the worker. Raises BootFailure."""
        try:
            self._process = subprocess.Popen(
                command,
                env={**self._environment(), **own},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            where = "a path in the project, a script of its dependencies or a program on the PATH of its worker"
            raise boot_failure("CommandNotFound", f"{command[0]!r} cannot be run: {error.strerror}. It is {where}") from None
        self._follow(worker)

    @property
    def code(self) -> int:
        """Its exit code, as a shell counts: 128 and its number for a signal."""
        code = self._process.returncode
        return 128 - code if code < 0 else code

    def how_it_ended(self) -> str:
        code = self._process.returncode
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"

    def last_lines(self) -> str:
        return b"".join(self._last).decode("utf-8", "backslashreplace")

    async def stop(self) -> None:
        """SIGTERM to all of it, and after its grace SIGKILL."""
        self.signal_group(signal.SIGTERM)
        await self.ends_within(SERVER_STOP_GRACE_S)
        self.signal_group(signal.SIGKILL)

    async def ends_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self.exited.wait(), seconds)
        except asyncio.TimeoutError:
            pass
        return self.exited.is_set()

    def terminate(self) -> None:
        """SIGTERM to the program alone, as a container's first process gets it: what it started is its own to end."""
        if not self.exited.is_set():
            self._process.terminate()

    def failure(self, kind: str, message: str) -> BootFailure:
        """With the last that it printed."""
        return boot_failure(kind, f"{' '.join(self._command)[:200]}: {message}", self.last_lines())

    def signal_group(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def _environment(self) -> dict[str, str]:
        """That of the worker, in which Python and scripts find what the endpoint's code would."""
        home = os.environ.get("TMPDIR") or tempfile.gettempdir()
        programs = os.path.join(home, "bin")
        os.makedirs(programs, mode=0o700, exist_ok=True)
        for name in ("python", "python3"):
            if not os.path.lexists(os.path.join(programs, name)):
                os.symlink(sys.executable, os.path.join(programs, name))
        found = [*(os.path.join(path, "bin") for path in self._paths[1:]), programs, os.environ.get("PATH", os.defpath)]
        own = {"PATH": ":".join(found), "PYTHONPATH": ":".join([*self._paths, _ROOT])}
        return {"PYTHONUNBUFFERED": "1", "PYTHONNOUSERSITE": "1", **os.environ, **own}

    def _follow(self, worker) -> None:
        """What it prints goes to the log; its end is noticed."""
        loop = asyncio.get_running_loop()
        outputs = ((self._process.stdout, worker.stdout), (self._process.stderr, worker.stderr))
        pumps = [_Output(pipe, stream, self._last) for pipe, stream in outputs]
        for pump in pumps:
            pump.start(loop)

        def on_exit() -> None:
            for pump in pumps:
                pump.end(loop)
            self.signal_group(signal.SIGKILL)  # what it left in its group
            self.exited.set()

        def wait() -> None:
            self._process.wait()
            loop.call_soon_threadsafe(on_exit)

        threading.Thread(target=wait, name="svc-command", daemon=True).start()


class _Output:
    """One of its two outputs, line by line."""

    def __init__(self, pipe, stream, last: deque) -> None:
        self._pipe = pipe
        self._stream = stream
        self._last = last
        self._lines = LineBuffer()
        os.set_blocking(pipe.fileno(), False)

    def start(self, loop) -> None:
        loop.add_reader(self._pipe.fileno(), self._read, loop)

    def _read(self, loop) -> bool:
        """Whether there may be more."""
        try:
            data = os.read(self._pipe.fileno(), PIPE_READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            loop.remove_reader(self._pipe.fileno())
            return False
        self._pass(self._lines.push(data))
        return True

    def _pass(self, lines: bytes) -> None:
        if not lines:
            return
        for line in lines.splitlines()[-SERVER_LAST_LINES:]:
            self._last.append(line[:SERVER_LAST_LINE_MAX_BYTES] + b"\n")
        self._stream.write_lines(0, lines)

    def end(self, loop) -> None:
        """Passes on what is left; what a process that lives on still holds open is not waited for."""
        for _ in range(SERVER_OUTPUT_READS_MAX):
            if not self._read(loop):
                break
        self._pass(self._lines.rest())
        loop.remove_reader(self._pipe.fileno())
        self._pipe.close()


def boot_failure(kind: str, message: str, lines: str = "") -> BootFailure:
    return BootFailure({"error_type": kind, "error_message": message, "error_traceback": lines})
