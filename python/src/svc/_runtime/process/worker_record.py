"""What the launcher knows of one worker, from START to EXITED."""

from __future__ import annotations

from svc._runtime.confine.cgroups import Group
from svc._runtime.work.output import OutputPipe


FIELDS = {"token": str, "socket": str, "handler": str, "endpoint": dict}
MAY_LACK = {"zygote": str, "boot": str, "python": str, "tempDir": str, "paths": list, "env": dict}


def check_start(start: dict) -> None:
    """Raises TypeError for a START whose worker could neither be started nor be cleared away."""
    wrong = [name for name, type in FIELDS.items() if not isinstance(start.get(name), type)]
    wrong += [name for name, type in MAY_LACK.items() if start.get(name) is not None and not isinstance(start[name], type)]
    if wrong:
        raise TypeError(", ".join(wrong))


class WorkerRecord:
    __slots__ = (
        "began", "group", "how", "id", "killed", "pid", "pipes", "reason", "start", "stop_at", "stopping",
        "term_at",
    )  # fmt: skip

    def __init__(self, start: dict, began: float) -> None:
        self.id: str = start["worker"]
        self.start = start
        self.group: Group | None = None
        """Known from the fork or spawn on."""
        self.began = began
        self.pid = 0
        self.how = ""
        self.reason = ""
        """Why no zygote was used."""
        self.pipes: list[OutputPipe] = []
        self.stopping = False
        self.stop_at: float | None = None
        """When SIGKILL follows."""
        self.term_at: float | None = None
        """When SIGTERM is sent again: a process on its way into a system call may miss it."""
        self.killed = ""
        """Why we killed it."""


def exit_reason(record: WorkerRecord, status: int) -> str:
    """The cause in words."""
    if status == -9 and not record.killed and record.group is not None and record.group.oom_killed():
        return over_memory(record)
    return record.killed or how_it_ended(status).removeprefix("was ")


def over_memory(record: WorkerRecord) -> str:
    machine = record.start.get("machine")
    return f"killed: memory limit {record.start['memoryBytes'] / 1024**3:g} GB" + (f" of {machine}" if machine else "")


def how_it_ended(status: int) -> str:
    return f"was killed by {signal_name(-status)}" if status < 0 else f"exited with code {status}"


def signal_name(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
