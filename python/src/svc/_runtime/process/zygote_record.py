"""What the launcher knows of one zygote and of its forks."""

from __future__ import annotations

import socket

from svc._runtime.confine.cgroups import Group
from svc._runtime.process.worker_record import WorkerRecord
from svc._runtime.process.zygote import send_message
from svc._runtime.work.output import OutputPipe


class Child:
    """A fork of a zygote, on its way or there: a worker, or a spare while it has no record."""

    __slots__ = ("channel", "group", "number", "pid", "pipes", "record")

    def __init__(self, number: int, channel: socket.socket, group: Group, pipes: list[OutputPipe]) -> None:
        self.number = number
        self.channel: socket.socket | None = channel
        """Takes the START; None afterwards."""
        self.group = group
        self.pipes = pipes
        self.pid = 0
        self.record: WorkerRecord | None = None

    def hand_over(self, start: dict) -> bool:
        """False when it has died: the zygote reports its end."""
        channel, self.channel = self.channel, None
        try:
            send_message(channel, start)
        except OSError:
            return False
        finally:
            channel.close()
        return True

    def let_go(self) -> None:
        """A spare ends by itself when its channel closes."""
        if self.channel is not None:
            self.channel.close()
            self.channel = None


class Zygote:
    __slots__ = (
        "channel", "children", "folder", "group", "has_namespaces", "idle_bytes", "key", "pid", "pipes", "ready", "retire_at",
        "retired", "spare", "spare_at", "unclaimed_import_ms", "waiting",
    )  # fmt: skip

    def __init__(self, key: str, channel: socket.socket, pipes: list[OutputPipe], group: Group) -> None:
        self.key = key
        self.pid = 0
        """Known when the nursery has answered."""
        self.channel = channel
        self.pipes = pipes
        self.group = group
        self.has_namespaces = False
        """Its workers are gone when it is."""
        self.folder = ""
        """Its own one beside its workers' temporary directories."""
        self.ready = False
        self.retired = False
        self.waiting: list[WorkerRecord] = []
        """To be forked when the import is done."""
        self.children: dict[int, Child] = {}
        """Forks by their number, from the request to their end."""
        self.spare: Child | None = None
        self.spare_at: tuple[float, dict] | None = None
        """When to make the next spare, and for a START like which."""
        self.retire_at: float | None = None
        """When it goes, having no worker."""
        self.idle_bytes = 0
        """What it and its spare hold while it has no worker."""
        self.unclaimed_import_ms = 0.0


def beyond(max_bytes: float, idle: list[Zygote]) -> list[Zygote]:
    """Those of the idle that hold more together than they may, used longest ago; the one used last is never among them."""
    idle = sorted(idle, key=lambda each: each.retire_at)
    held = sum(each.idle_bytes for each in idle)
    found = []
    for each in idle[:-1]:
        if held <= max_bytes:
            break
        held -= each.idle_bytes
        found.append(each)
    return found
