"""A server of the endpoint's own: a command that the worker starts, waits for, reads the output of and ends.

    start ─▶ process group ─▶ answers on its port ─▶ requests … ─▶ SIGTERM, grace, SIGKILL to the group
                 └── ends before ─▶ BootFailure            └── ends by itself ─▶ `exited`
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from time import monotonic

from svc._runtime.http.command_process import CommandProcess, boot_failure
from svc._runtime.http.upstream import BadAnswer, read_head
from svc._runtime.limits import SERVER_HEAD_MAX_BYTES, SERVER_PROBE_S, SERVER_PROBE_STEP_MAX_S, SERVER_PROBE_STEP_S

HOST = "127.0.0.1"


class ServerProcess(CommandProcess):
    """`settings`: command, port (0: a free one), readyPath ("": a connection is enough), readyTimeout in seconds."""

    def __init__(self, settings: dict, paths: list[str]) -> None:
        super().__init__(settings["command"], paths)
        self._settings = settings
        self.port = 0

    async def start(self, worker) -> None:
        """Resolves when it answers. Raises BootFailure with the reason and the last that it printed."""
        self.port = self._free_port()
        command = [each.replace("{port}", str(self.port)) for each in self._command]
        self.spawn(worker, command, {"PORT": str(self.port)})
        try:
            await self._answers()
        except BaseException:
            self.signal_group(signal.SIGKILL)
            raise

    def connect(self):
        return asyncio.open_connection(HOST, self.port, limit=SERVER_HEAD_MAX_BYTES)

    def _free_port(self) -> int:
        fixed = self._settings["port"]
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, fixed))
            except OSError as error:
                help = 'write {port} in the command and leave port= out, so that each worker has one of its own'
                raise boot_failure("PortTaken", f"port {fixed} cannot be had: {error.strerror}; {help}") from None
            return probe.getsockname()[1]

    async def _answers(self) -> None:
        timeout, path = self._settings["readyTimeout"], self._settings["readyPath"]
        began, pause, why = monotonic(), SERVER_PROBE_STEP_S, ""
        while monotonic() - began < timeout:
            if await self.ends_within(pause):
                raise self.failure("ServerExited", f"it {self.how_it_ended()} before it was ready")
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
        raise self.failure("ServerNotReady", f"it was not ready after {timeout} s: {what}: {why}")

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
                    raise self.failure("PortTaken", f"a process of another user answers on its port {self.port}")
