"""The launcher's side of one zygote: what it knows of it and of its forks, and its ends of their channels, where what code
of the user may say is not believed."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Iterable

from svc._runtime.confine import kernel
from svc._runtime.confine.cgroups import Group
from svc._runtime.limits import START_MESSAGE_MAX_BYTES
from svc._runtime.process.outputs import Outputs
from svc._runtime.process.worker_record import WorkerRecord
from svc._runtime.process.zygote import send_message
from svc._runtime.work.output import OutputPipe

_CREDENTIALS = struct.Struct("3i")


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
        "channel", "children", "fault", "folder", "group", "has_namespaces", "idle_bytes", "key", "pid", "pipes", "ready", "retire_at",
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
        self.fault = ""
        """What it did that ended it."""
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

    def measure(self) -> None:
        pids = [self.pid, *(child.pid for child in self.children.values() if child.pid)]
        self.idle_bytes = sum(map(kernel.proportional_bytes, pids))

    def drop_spare(self) -> None:
        spare, self.spare = self.spare, None
        if spare is not None:
            spare.let_go()


class Unforkable:
    """Keys whose workers are spawned, each with an interpreter of its own: a fork would be a broken copy, or ends what forks it."""

    def __init__(self) -> None:
        self._why: dict[str, str] = {}
        self._ended: set[str] = set()
        """Whose last zygote ended in place of a fork."""

    def why(self, key: str) -> str:
        """"" where they are forked."""
        return self._why.get(key, "")

    def say(self, key: str, why: str) -> None:
        self._why[key] = why[:200]

    def forked(self, key: str) -> None:
        self._ended.discard(key)

    def ended(self, key: str, why: str) -> None:
        """Once it may have been killed; a fork that ends it again, as hooks of forks do that fail, would do so for ever."""
        if key in self._ended:
            self._why[key] = why
        self._ended.add(key)

    def forget(self, key: str) -> None:
        self._why.pop(key, None)
        self._ended.discard(key)


def beyond(max_bytes: float, zygotes: Iterable[Zygote]) -> list[Zygote]:
    """Those of the idle that hold more together than they may, used longest ago; the one used last is never among them."""
    idle = sorted((each for each in zygotes if each.retire_at is not None), key=lambda each: each.retire_at)
    held = sum(each.idle_bytes for each in idle)
    found = []
    for each in idle[:-1]:
        if held <= max_bytes:
            break
        held -= each.idle_bytes
        found.append(each)
    return found


def open_ends(outputs: Outputs, worker: str) -> tuple[socket.socket, socket.socket, list[OutputPipe], int, int]:
    """A channel and outputs: our ends, and theirs. Raises OSError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        pipes, stdout, stderr = outputs.open(worker)
    except OSError:
        ours.close()
        theirs.close()
        raise
    ours.setblocking(False)
    return ours, theirs, pipes, stdout, stderr


def close_theirs(channel: socket.socket, stdout: int, stderr: int) -> None:
    channel.close()
    os.close(stdout)
    os.close(stderr)


def close_ends(outputs: Outputs, channel: socket.socket, pipes: list[OutputPipe]) -> None:
    channel.close()
    for pipe in pipes:
        outputs.close(pipe)


def send_with_group(channel: socket.socket, message: dict, group: Group, descriptors: tuple = ()) -> None:
    files = group.open_files()
    try:
        send_message(channel, message, (*descriptors, *files))
    finally:
        for descriptor in files:
            os.close(descriptor)


def receive_from(channel: socket.socket) -> tuple[dict | None, int]:
    """The next message, and which process sent it; None when the other side is gone. Raises BlockingIOError, and for what is no
    message LookupError, OverflowError, RecursionError, TypeError or ValueError."""
    try:
        data, ancillary, _, _ = channel.recvmsg(START_MESSAGE_MAX_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
    except ConnectionError:
        return None, 0
    sender = 0
    for level, kind, credentials in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            sender = _CREDENTIALS.unpack(credentials)[0]
    return (_understood(json.loads(data)) if data else None), sender


def _understood(message: dict) -> dict:
    """What a zygote says may be said by code of the user: one of its messages, with values of their kind, or an error."""
    if "ready" in message:
        return {"ready": float(message["ready"])}
    if "failed" in message:
        return {"failed": {name: _text_of(dict(message["failed"]).get(name, "")) for name in failure("")}}
    if "unforkable" in message:
        return {"unforkable": _text_of(message["unforkable"])}
    if "unforked" in message:
        return {"unforked": int(message["unforked"]), "why": _text_of(message["why"])}
    if "forked" in message:
        return {"forked": int(message["forked"])}
    return {"exited": int(message["exited"]), "status": int(message["status"])}


def _text_of(value: object) -> str:
    return str(value)[:16_000]


def failure(message: str) -> dict:
    return {"error_type": "BootFailure", "error_message": message, "error_traceback": ""}
