"""A program of the endpoint's own that pulls its jobs over HTTP (docs/reference/pull-workers.md): the worker starts it and looks
after its process; jobs and results go past the worker."""

from __future__ import annotations

import asyncio
import signal
import sys

from svc._runtime.http.command_process import CommandProcess
from svc._runtime.link.protocol import boot_failed
from svc._runtime.work.worker import WorkerFailed


class PullProgram:
    """Stands where another endpoint has what answers its requests."""

    has_application = True

    def __init__(self, settings: dict, paths: list[str]) -> None:
        self._command = settings["command"]
        self._paths = paths
        self._process: CommandProcess | None = None
        self._watch: asyncio.Task | None = None

    async def start(self, worker) -> None:
        """Raises BootFailure when the program cannot be run."""
        self._process = CommandProcess(self._command, self._paths)
        self._process.spawn(worker, self._command, {})
        self._watch = asyncio.ensure_future(self._look_after(worker))

    async def stop(self) -> None:
        """SIGTERM to the program, which finishes what it has begun: whoever stops this worker knows for how long."""
        self._watch.cancel()
        self._process.terminate()
        await self._process.exited.wait()
        self._process.signal_group(signal.SIGKILL)

    async def _look_after(self, worker) -> None:
        process = self._process
        await process.exited.wait()
        ended = f"the program {process.how_it_ended()}"
        if process.code != 0:
            sys.stderr.write(f"[svc] {ended}; the last it printed:\n{process.last_lines() or '(nothing)'}\n")
        # Where it has asked for a job before, this is no failed start: the platform knows.
        failure = process.failure("ProgramExited", f"it {process.how_it_ended()} before it asked for a job")
        worker.connection.send(boot_failed({"worker": worker.who.worker, **failure.fields}))
        worker.fail(WorkerFailed(ended, process.code))
