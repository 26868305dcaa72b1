"""A worker: one process that runs an endpoint's jobs or requests.

Three ways to run, chosen from the endpoint: blocking (sync functions, one at a time: blocking.py), threads (sync
functions, several at a time: threads.py) and an event loop (async functions: event_loop.py). This module has what
they share: sorting of frames, cancels, output, and the end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque

from svc._runtime.link import protocol
from svc._runtime.link.connection import Connection, Unacknowledged
from svc._runtime.link.heads import read_head
from svc._runtime.link.protocol import MORE, encode
from svc._runtime.work.interruption import Interruption, end_child
from svc._runtime.work.output import JobStream, RateLimit, frames_of, write_all
from svc._runtime.work.upload import Upload
from svc._runtime.work.work import Identity, Work, cancelled_frame, new_context
from svc._values import codec
from svc._values.failure import describe
from svc.context import Context, context
from svc.lifecycle import ENTER, EXIT, marked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from svc.retries import Retries


class WorkerFailed(Exception):
    """The worker cannot go on; it ends with this code."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.code = code


class Worker:
    """What all ways to run share. Subclasses define `loop`, and how a cancel gets into what runs."""

    interruption: Interruption

    def __init__(self, start: dict, callables: dict, requests, connection: Connection) -> None:
        endpoint = start["endpoint"]
        self.who = Identity(start["worker"], endpoint["name"], endpoint.get("environment", ""))
        self.endpoint_id = endpoint.get("id", "")
        self.callables = callables
        self.retries: Retries | None = None
        """What the endpoint says of jobs that raise; None: it says nothing."""
        self.requests = requests
        """How requests are answered (http/requests.py); None at a queue-based endpoint."""
        self.connection = connection
        self.concurrency = max(1, int(start.get("concurrency") or 1))
        self.pending: deque[Work] = deque()
        """Arrived and not begun."""
        self.running: dict[int, Work] = {}
        self.draining = False
        self._arriving: dict[int, tuple[Work, list[bytes]]] = {}
        self._uploads: dict[int, Upload] = {}
        self.stdout: JobStream | None = None
        self.stderr: JobStream | None = None
        self.exits: list = []
        """What `exit` marks, until it is called."""
        self.leaving = False
        """Nothing more is done but to end."""
        self._leaves = threading.RLock()

    def prepare(self) -> None:
        """What has to be there before the first work, once the output is captured. Raises BootFailure."""

    def enter(self, instances: dict[type, object]) -> None:
        """Runs what `enter` marks, before the first work."""
        for cls, instance in instances.items():
            for name in marked(cls, ENTER):
                self.run_to_end(getattr(instance, name))
        self.exits = [getattr(instance, name) for cls, instance in instances.items() for name in marked(cls, EXIT)]

    def exit(self) -> None:
        """Runs what `exit` marks, each once: from now on this thread ends the process, and no signal does."""
        self._leaves.acquire()  # never released: another thread that would end the process waits for that
        self.leaving = True
        while self.exits:
            method = self.exits.pop(0)
            try:
                self.run_to_end(method)
            except BaseException as error:
                text = f"[svc] {method.__qualname__}() failed:\n{describe(error, self.who.endpoint)['error_traceback']}"
                sys.stderr.write(text)

    def run_to_end(self, method) -> None:
        """Calls a method that `enter` or `exit` marks."""
        failed = None
        try:
            value = method()
            if hasattr(value, "__await__"):
                self.await_end(method, value)
        except BaseException as error:
            if not self.interruption.in_child:
                raise
            failed = error
        if self.interruption.in_child:
            end_child(failed)

    def await_end(self, method, value) -> None:
        """Of a coroutine. Raises TypeError where there is no event loop."""
        value.close()
        raise TypeError(f"{method.__qualname__} is async, and no method of its class that jobs call is: write it with def")

    def loop(self) -> None:
        """Runs until drained. Raises Refused and Unreachable."""
        raise NotImplementedError

    def cancel_running(self, work: Work) -> None:
        """Interrupts a running function; its context's flag is set already."""
        self.interruption.interrupt(work)

    def dispatch(self, frame: tuple) -> None:
        """Sorts one frame in; new work goes to `pending`."""
        type, flags, channel, head, body = frame
        if type == protocol.JOB:
            parsed = read_head(type, head)
            self.connection.unacknowledged[channel] = Unacknowledged(parsed["job"], parsed["fence"])
            self._arrived(Work(type, channel, parsed, body), flags)
        elif type == protocol.ACK:
            self.connection.unacknowledged.pop(channel, None)
        elif type == protocol.REQUEST:
            work = Work(type, channel, read_head(type, head), body)
            if flags & MORE and self.requests is not None and self.requests.reads_as_it_comes(work.head):
                work.upload = self._uploads[channel] = Upload(
                    body, True, lambda taken: self._widen_upload(channel, taken)
                )
                self.pending.append(work)
            else:
                self._arrived(work, flags)
        elif type == protocol.BODY:
            upload = self._uploads.get(channel)
            if upload is not None:
                upload.put(body, bool(flags & MORE))
                if not flags & MORE:
                    del self._uploads[channel]
            arriving = self._arriving.get(channel)
            if arriving is not None:
                arriving[1].append(body)
                if flags & MORE:
                    self._widen_upload(channel, len(body))
                else:
                    del self._arriving[channel]
                    arriving[0].body = b"".join(arriving[1])
                    self.pending.append(arriving[0])
        elif type == protocol.CANCEL:
            self._cancel(channel, read_head(type, head).get("reason") or "cancelled")
        elif type == protocol.WINDOW:
            self._widen(channel, read_head(type, head)["bytes"])
        elif type == protocol.PING:
            self.connection.send(encode(protocol.PONG))
        elif type == protocol.DRAIN:
            self.draining = True

    def _arrived(self, work: Work, flags: int) -> None:
        if flags & MORE:
            self._arriving[work.channel] = (work, [work.body])
        else:
            self.pending.append(work)

    def _widen_upload(self, channel: int, taken: int) -> None:
        self.emit(encode(protocol.WINDOW, channel, {"bytes": taken}), False)

    def _widen(self, channel: int, taken: int) -> None:
        work = self.running.get(channel)
        if work is not None:
            work.window += taken
            if work.gate is not None:
                work.gate()

    def await_window(self, work: Work) -> None:
        """Holds the thread that streams until the caller has taken enough. Raises Cancelled."""
        opened = threading.Event()
        work.gate = opened.set
        while work.window <= 0:
            if work.cancel_reason:
                self.interruption.stop(work)
            opened.wait()
            opened.clear()
        work.gate = None

    def _cancel(self, channel: int, reason: str) -> None:
        message = {"timeout": "execution timeout", "disconnected": "the caller went away"}.get(reason, reason)
        upload = self._uploads.pop(channel, None)
        if upload is not None:
            upload.break_off(message)
        arriving = self._arriving.pop(channel, None)
        waiting = [arriving[0]] if arriving else [work for work in self.pending if work.channel == channel]
        for work in waiting:
            try:
                if not arriving:
                    self.pending.remove(work)
            except ValueError:
                continue  # it has just begun
            work.cancel_reason = message
            self.send_result(work, cancelled_frame(work, self.who))
            return
        if reason == "recalled":
            return  # what has begun goes on
        work = self.running.get(channel)
        if work is not None and not work.cancel_reason:
            work.cancel_reason = message
            work.context._cancelled = True
            if work.gate is not None:
                work.gate()
            self.cancel_running(work)

    def link_broke(self) -> None:
        """Requests do not survive a break: they are cancelled. Jobs go on."""
        self._arriving.clear()
        for upload in self._uploads.values():
            upload.break_off("disconnected")
        self._uploads.clear()
        for work in [work for work in self.pending if work.type == protocol.REQUEST]:
            self.pending.remove(work)
        for work in list(self.running.values()):
            if work.type == protocol.REQUEST:
                self._cancel(work.channel, "disconnected")

    def begin(self, work: Work) -> Context:
        """From now on it runs, in a context of its own."""
        begun = new_context(work, self.who, self.reporter(work))
        self.running[work.channel] = work
        return begun

    def send_result(self, work: Work, frame: bytes) -> None:
        self.keep_result(work, frame)
        self.connection.send(frame)

    def keep_result(self, work: Work, frame: bytes) -> None:
        """Of a job: until its ACK."""
        kept = self.connection.unacknowledged.get(work.channel)
        if kept is not None:
            kept.result = frame

    def emit(self, data: bytes, keep: bool, starts: Work | None = None) -> bool:
        """Sends frames that user code causes, whole: a cancel waits until they are out. `starts` is the work whose stream they start.

        False when they are known to be lost.
        """
        exposed = self.interruption.here()
        if exposed is not None:
            self.interruption.shield(exposed)
        try:
            sent = self.transmit(data, keep)
            if starts is not None:
                starts.started = True
            return sent
        finally:
            if exposed is not None:
                self.interruption.expose(exposed)

    def transmit(self, data: bytes, keep: bool) -> bool:
        return self.connection.send(data, (data,) if keep else ()) or keep

    def reporter(self, work: Work):
        """What `progress()` calls for this work; None for a request, which has no progress."""
        if work.type != protocol.JOB:
            return lambda value: None
        channel = work.channel  # it must not hold the work, which has it: bodies would wait for a collection of garbage
        return lambda value: self.emit(encode(protocol.PROGRESS, channel, None, codec.encode(value)), True)

    def capture_output(self) -> None:
        """From now on print() becomes LOG frames on the channel of its job."""
        rate = RateLimit()

        def emit_lines(stream: str, channel: int, lines: bytes) -> None:
            head = {"stream": stream}
            work = self.running.get(channel)
            if work is not None and work.type == protocol.JOB:
                head["job"] = work.head["job"]
            for part in frames_of(lines):
                # While the platform is not there, before WELCOME or after a break, only the launcher listens.
                if not self.connection.up or not self.emit(encode(protocol.LOG, channel, head, part), False):
                    write_all(1 if stream == "stdout" else 2, part)

        def channel_now() -> int:
            return context().channel

        sys.stdout = self.stdout = JobStream("stdout", 1, emit_lines, channel_now, rate)
        sys.stderr = self.stderr = JobStream("stderr", 2, emit_lines, channel_now, rate)

    def log_traceback(self, work: Work, text: str) -> None:
        self.end_output(work.channel)
        if self.stderr is not None:
            text = f"[svc] job {work.head['job']} failed:\n{text}"
            self.stderr.write_lines(work.channel, text.encode("utf-8", "backslashreplace"))

    def end_output(self, channel: int) -> None:
        if self.stdout is not None:
            if self.stdout._buffers:
                self.stdout.end_channel(channel)
            if self.stderr._buffers:
                self.stderr.end_channel(channel)

    def forked(self) -> None:
        """In a child that user code forks: plain signals, output to the launcher's pipes, and the link is not its own."""
        self.connection.disown()
        self.interruption.forked()
        for number in (signal.SIGTERM, signal.SIGURG):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.exits = []
        plain_output()

    def finished(self) -> bool:
        """Drained, and every result is with the platform."""
        held = self.pending or self.running or self._arriving or self.connection.unacknowledged
        return self.draining and not held

    def goodbye(self, reason: str) -> None:
        """Runs what `exit` marks and what is registered with atexit, whose output still reaches the log, and says GOODBYE."""
        self.exit()
        _run_exit_functions()
        self.end_output(0)
        self.connection.send(encode(protocol.GOODBYE, 0, {"reason": reason}))

    def leave(self, reason: str) -> None:
        """Says GOODBYE and ends the process."""
        self.goodbye(reason)
        end_process(0)


def end_process(code: int) -> None:
    """Ends the process now: threads of user code that still run cannot hold it."""
    plain_output()
    _run_exit_functions()
    os._exit(code)


def _run_exit_functions() -> None:
    """Each once."""
    try:
        import atexit

        atexit._run_exitfuncs()
    except BaseException:
        pass


def plain_output() -> None:
    """To the launcher's pipes: the link is not this process's own, or gone."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        setattr(sys, name, open(descriptor, "w", buffering=1, errors="backslashreplace", closefd=False))
