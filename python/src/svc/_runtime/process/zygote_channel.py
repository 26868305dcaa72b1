"""The launcher's end of a zygote's channel, and of those of its forks: what code of the user may say is not believed."""

from __future__ import annotations

import json
import os
import socket
import struct

from svc._runtime.confine.cgroups import Group
from svc._runtime.limits import START_MESSAGE_MAX_BYTES
from svc._runtime.process.outputs import Outputs
from svc._runtime.process.zygote import send_message
from svc._runtime.work.output import OutputPipe

_CREDENTIALS = struct.Struct("3i")


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
    """The next message, and which process sent it; None when the other side is gone."""
    try:
        data, ancillary, _, _ = channel.recvmsg(START_MESSAGE_MAX_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
    except ConnectionError:
        return None, 0
    sender = 0
    for level, kind, credentials in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            sender = _CREDENTIALS.unpack(credentials)[0]
    return (json.loads(data) if data else None), sender


def text_of(value: object) -> str:
    """What a zygote says is said by code of the user."""
    return str(value)[:16_000]
