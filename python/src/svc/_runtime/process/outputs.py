"""The launcher's ends of its workers' stdout and stderr: what arrives becomes LOG frames with the worker's id."""

from __future__ import annotations

import os
import select

from svc._runtime.link import protocol
from svc._runtime.link.protocol import encode
from svc._runtime.work.output import OutputPipe, RateLimit


class Outputs:
    def __init__(self, poll: select.poll, link) -> None:
        self._poll = poll
        self._link = link
        self._pipes: dict[int, OutputPipe] = {}
        link.welcomed = self._tell_dropped

    def __contains__(self, descriptor: int) -> bool:
        return descriptor in self._pipes

    def open(self, worker: str) -> tuple[list[OutputPipe], int, int]:
        """Our reading ends, and the writing ends for the worker, which the caller hands over and closes."""
        rate = RateLimit()
        out_read, out_write = os.pipe()
        try:
            err_read, err_write = os.pipe()
        except OSError:
            os.close(out_read)
            os.close(out_write)
            raise
        pipes = [OutputPipe(out_read, "stdout", worker, rate), OutputPipe(err_read, "stderr", worker, rate)]
        for pipe in pipes:
            self._pipes[pipe.descriptor] = pipe
            self._poll.register(pipe.descriptor, select.POLLIN)
        return pipes, out_write, err_write

    def read(self, descriptor: int) -> None:
        pipe = self._pipes[descriptor]
        lines = pipe.read()
        if lines is None:
            self.close(pipe)
        elif lines:
            self._send(pipe, lines)

    def close(self, pipe: OutputPipe) -> None:
        """Passes on what is left in the pipe (no more than a pipe holds) and closes it. Once: another may have its number by then."""
        if self._pipes.get(pipe.descriptor) is not pipe:
            return
        del self._pipes[pipe.descriptor]
        for _ in range(32):
            lines = pipe.read()
            if lines is None or (not lines and pipe.is_empty):
                break
            if lines:
                self._send(pipe, lines)
        rest = pipe.rest()
        if rest or pipe.dropped:
            self._send(pipe, rest)
        self._poll.unregister(pipe.descriptor)
        os.close(pipe.descriptor)

    def _tell_dropped(self) -> None:
        for pipe in self._pipes.values():
            if pipe.dropped:
                self._send(pipe, b"")

    def _send(self, pipe: OutputPipe, lines: bytes) -> None:
        if pipe.dropped:
            lines = b"[svc] %d lines left out: the platform was away or slow\n" % pipe.dropped + lines
        head = {"stream": pipe.stream, "worker": pipe.worker}
        if self._link.send_output(encode(protocol.LOG, 0, head, lines)):
            pipe.dropped = 0
        else:
            pipe.dropped += lines.count(b"\n") - bool(pipe.dropped)
