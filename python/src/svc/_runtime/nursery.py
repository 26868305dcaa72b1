"""The nursery: a process forked from the launcher before that knew any secret; every zygote is a fork of it.

    launcher ── a zygote's channel and output pipes ──▶ nursery ── fork ──▶ (ends at once) ── fork ──▶ zygote
             ◀── its pid ──────────────────────────────

A zygote runs user code, so nothing may be in its memory that belongs to others: the launcher's token, and the variables
and tokens of other endpoints' workers. By the double fork the zygote is a child of the launcher, the subreaper.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys

from svc._runtime import birth, kernel
from svc._runtime.zygote import receive_message, send_message
from svc._runtime.zygote import serve as serve_zygote


class Nursery:
    """The launcher's side. Make it before anything secret is read."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._channel.close()
                _run(theirs)
            finally:
                os._exit(70)
        theirs.close()

    def fork_zygote(self, channel: socket.socket, stdout: int, stderr: int) -> int:
        """Its pid. Its START is the first message it takes from the channel. Raises OSError."""
        send_message(self._channel, {}, (channel.fileno(), stdout, stderr))
        message, _ = receive_message(self._channel)
        if message is None:
            raise OSError(0, "the nursery has ended")
        if "why" in message:
            raise OSError(0, message["why"])
        return message["pid"]


def _run(channel: socket.socket) -> None:
    kernel.die_with_parent()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    gc.disable()
    while True:
        message, descriptors = receive_message(channel)
        if message is None:
            os._exit(0)
        try:
            _fork(channel, *descriptors)
        except OSError as error:
            send_message(channel, {"why": error.strerror})
        for descriptor in descriptors:
            os.close(descriptor)


def _fork(channel: socket.socket, descriptor: int, stdout: int, stderr: int) -> None:
    read, write = os.pipe()
    try:
        between = os.fork()
        if between == 0:
            pid = 0
            try:
                pid = os.fork()
                if pid == 0:
                    os.close(read)
                    os.close(write)
                    _become_zygote(channel, descriptor, stdout, stderr)
                os.write(write, str(pid).encode())
            finally:
                os._exit(0)
        os.close(write)
        write = -1
        os.waitpid(between, 0)
        # Only now has the zygote its lasting parent, with whom it is to die.
        pid = os.read(read, 32)
    finally:
        os.close(read)
        if write >= 0:
            os.close(write)
    send_message(channel, {"pid": int(pid)} if pid else {"why": "no process could be made"})


def _become_zygote(nursery: socket.socket, descriptor: int, stdout: int, stderr: int) -> None:
    try:
        nursery.close()
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        birth.use_as_output(stdout, stderr)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.reconfigure(line_buffering=True)
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=descriptor)
        start, _ = receive_message(channel)
        if start is not None:
            serve_zygote(channel, start)
    except BaseException as error:
        os.write(2, f"[svc] zygote failed: {error!r}\n".encode())
    finally:
        os._exit(70)
