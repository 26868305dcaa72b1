"""What the launcher knows of one worker, from START to EXITED."""

from __future__ import annotations

import os

from svc._runtime.confine import Group
from svc._runtime.limits import PIPE_READ_BYTES
from svc._runtime.output import LineBuffer, RateLimit


class OutputPipe:
    """The reading end of a worker's stdout or stderr."""

    __slots__ = ("_lines", "_rate", "descriptor", "stream", "worker")

    def __init__(self, descriptor: int, stream: str, worker: str, rate: RateLimit) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.stream = stream
        self.worker = worker
        self._lines = LineBuffer()
        self._rate = rate

    def read(self) -> bytes | None:
        """Whole lines to pass on, maybe none; None at the end of the stream."""
        try:
            data = os.read(self.descriptor, PIPE_READ_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            return None
        if not data:
            return None
        return self._rate.admit(self._lines.push(data))

    def rest(self) -> bytes:
        return self._rate.admit(self._lines.rest())


class WorkerRecord:
    __slots__ = (
        "began", "exit_code", "group", "how", "id", "killed", "pid", "pipes", "reason", "start", "stop_at", "stopping",
        "zygote",
    )  # fmt: skip

    def __init__(self, start: dict, group: Group, began: float) -> None:
        self.id: str = start["worker"]
        self.start = start
        self.group = group
        self.began = began
        self.pid = 0
        self.how = ""
        self.reason = ""
        """Why no zygote was used."""
        self.zygote = ""
        self.pipes: list[OutputPipe] = []
        self.stopping = False
        self.stop_at: float | None = None
        """When SIGKILL follows."""
        self.killed = ""
        """Why we killed it."""
        self.exit_code: int | None = None


def exit_reason(record: WorkerRecord, status: int) -> str:
    """The cause in words."""
    if status == -9 and not record.killed and record.group.oom_killed():
        return f"killed: memory limit {record.start['memoryBytes'] / 1024**3:g} GB"
    if record.killed:
        return record.killed
    if status < 0:
        return f"killed by {signal_name(-status)}"
    return f"exited with code {status}"


def signal_name(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
