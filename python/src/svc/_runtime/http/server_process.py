"""A server of the endpoint's own: a command that the worker starts, waits for, reads the output of and ends.

    start ─▶ process group ─▶ answers on its port ─▶ requests … ─▶ SIGTERM, grace, SIGKILL to the group
                 └── ends before ─▶ BootFailure            └── ends by itself ─▶ `on_exit`
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from time import monotonic

from svc._runtime.http.upstream import BadAnswer, read_head
from svc._runtime.limits import (
    PIPE_READ_BYTES,
    SERVER_HEAD_MAX_BYTES,
    SERVER_LAST_LINE_MAX_BYTES,
    SERVER_LAST_LINES,
    SERVER_OUTPUT_READS_MAX,
    SERVER_PROBE_S,
    SERVER_PROBE_STEP_MAX_S,
    SERVER_PROBE_STEP_S,
    SERVER_STOP_GRACE_S,
)
from svc._runtime.work.output import LineBuffer
from svc._values.failure import BootFailure

HOST = "127.0.0.1"
_ROOT = os.path.abspath(__file__).rpartition("/svc/")[0]


class ServerProcess:
    """`settings`: command, port (0: a free one), readyPath ("": a connection is enough), readyTimeout in seconds."""

    def __init__(self, settings: dict, paths: list[str]) -> None:
        self._settings = settings
        self._paths = paths
        self._process: subprocess.Popen | None = None
        self._last: deque[bytes] = deque(maxlen=SERVER_LAST_LINES)
        self.port = 0
        self.exited = asyncio.Event()

    async def start(self, worker) -> None:
        """Resolves when it answers. Raises BootFailure with the reason and the last that it printed."""
        self.port = self._free_port()
        command = [each.replace("{port}", str(self.port)) for each in self._settings["command"]]
        try:
            self._process = subprocess.Popen(
                command,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            where = "a path in the project, a script of its dependencies or a program on the PATH of its worker"
            raise _boot_failure("ServerNotFound", f"{command[0]!r} cannot be run: {error.strerror}. It is {where}") from None
        self._follow(worker)
        try:
            await self._answers()
        except BaseException:
            self._signal(signal.SIGKILL)
            raise

    def connect(self):
        return asyncio.open_connection(HOST, self.port, limit=SERVER_HEAD_MAX_BYTES)

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
        self._signal(signal.SIGTERM)
        await self.ends_within(SERVER_STOP_GRACE_S)
        self._signal(signal.SIGKILL)

    async def ends_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self.exited.wait(), seconds)
        except asyncio.TimeoutError:
            pass
        return self.exited.is_set()

    def _free_port(self) -> int:
        fixed = self._settings["port"]
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, fixed))
            except OSError as error:
                help = 'write {port} in the command and leave port= out, so that each worker has one of its own'
                raise _boot_failure("PortTaken", f"port {fixed} cannot be had: {error.strerror}; {help}") from None
            return probe.getsockname()[1]

    def _environment(self) -> dict[str, str]:
        """That of the worker, in which Python and scripts find what the endpoint's code would."""
        home = os.environ.get("TMPDIR") or tempfile.gettempdir()
        programs = os.path.join(home, "bin")
        os.makedirs(programs, mode=0o700, exist_ok=True)
        for name in ("python", "python3"):
            if not os.path.lexists(os.path.join(programs, name)):
                os.symlink(sys.executable, os.path.join(programs, name))
        found = [*(os.path.join(path, "bin") for path in self._paths[1:]), programs, os.environ.get("PATH", os.defpath)]
        own = {"PORT": str(self.port), "PATH": ":".join(found), "PYTHONPATH": ":".join([*self._paths, _ROOT])}
        return {"PYTHONUNBUFFERED": "1", "PYTHONNOUSERSITE": "1", **os.environ, **own}

    async def _answers(self) -> None:
        timeout, path = self._settings["readyTimeout"], self._settings["readyPath"]
        began, pause, why = monotonic(), SERVER_PROBE_STEP_S, ""
        while monotonic() - began < timeout:
            if await self.ends_within(pause):
                raise self._failure("ServerExited", f"it {self.how_it_ended()} before it was ready")
            pause = min(pause * 2, SERVER_PROBE_STEP_MAX_S)
            try:
                why = await asyncio.wait_for(self._probe(path), SERVER_PROBE_S)
            except ConnectionRefusedError:
                why = "nobody listens there"
            except (OSError, EOFError) as error:
                why = f"it broke off: {error}"
            except asyncio.TimeoutError:
                why = f"no answer within {SERVER_PROBE_S:g} s"
            except BadAnswer as error:
                why = f"its answer is not HTTP: {error}"
            if not why:
                return self._refuse_stranger()
        what = f"GET {path} on port {self.port}" if path else f"port {self.port}"
        raise self._failure("ServerNotReady", f"it was not ready after {timeout} s: {what}: {why}")

    async def _probe(self, path: str) -> str:
        """Why it is not ready; "" when it is."""
        reader, writer = await self.connect()
        try:
            if not path:
                return ""
            writer.write(f"GET {path} HTTP/1.1\r\nhost: {HOST}:{self.port}\r\nconnection: close\r\n\r\n".encode())
            status = (await read_head(reader, "GET")).status
            return f"status {status}" if status >= 500 else ""
        finally:
            writer.transport.abort()

    def _refuse_stranger(self) -> None:
        """Workers of a machine share its ports: another endpoint's process, which is another user's, must not get the requests."""
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            try:
                with open(table) as file:
                    rows = [line.split() for line in file.readlines()[1:]]
            except OSError:
                continue
            for row in rows:
                listens = row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == self.port
                if listens and int(row[7]) != os.getuid():
                    raise self._failure("PortTaken", f"a process of another user answers on its port {self.port}")

    def _failure(self, kind: str, message: str) -> BootFailure:
        return _boot_failure(kind, f"{' '.join(self._settings['command'])[:200]}: {message}", self.last_lines())

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
            self._signal(signal.SIGKILL)  # what it left in its group
            self.exited.set()

        def wait() -> None:
            self._process.wait()
            loop.call_soon_threadsafe(on_exit)

        threading.Thread(target=wait, name="svc-server", daemon=True).start()

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass


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


def _boot_failure(kind: str, message: str, lines: str = "") -> BootFailure:
    return BootFailure({"error_type": kind, "error_message": message, "error_traceback": lines})
