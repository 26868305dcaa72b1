"""The launcher's zygotes by key: made on first need, asked to fork, forgotten when their import fails."""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys

from svc._runtime import birth, kernel
from svc._runtime.execute import execute
from svc._runtime.output import OutputPipe
from svc._runtime.outputs import Outputs
from svc._runtime.worker_record import WorkerRecord, signal_name
from svc._runtime.zygote import receive_message, send_message, serve


class Zygote:
    __slots__ = ("asked", "channel", "key", "pid", "pipes", "ready", "retired", "unclaimed_import_ms", "waiting")

    def __init__(self, key: str, pid: int, channel: socket.socket, pipes: list[OutputPipe]) -> None:
        self.key = key
        self.pid = pid
        self.channel = channel
        self.pipes = pipes
        self.ready = False
        self.retired = False
        self.waiting: list[WorkerRecord] = []
        """To be asked for when the import is done."""
        self.asked: dict[str, WorkerRecord] = {}
        self.unclaimed_import_ms = 0.0


class ZygotePool:
    """`events` is the launcher: forked, exited, spawn, fail_boot, stopped_early, abandon."""

    def __init__(self, poll: select.poll, outputs: Outputs, events) -> None:
        self._poll = poll
        self._outputs = outputs
        self._events = events
        self._by_key: dict[str, Zygote] = {}
        self._by_pid: dict[int, Zygote] = {}
        self._by_descriptor: dict[int, Zygote] = {}
        self._unforkable: dict[str, str] = {}
        """Key to why its workers are spawned."""

    def __contains__(self, pid: int) -> bool:
        return pid in self._by_pid

    def has_channel(self, descriptor: int) -> bool:
        return descriptor in self._by_descriptor

    def start(self, key: str, record: WorkerRecord) -> None:
        """Brings a worker up: by fork, or by spawn when its module cannot be forked."""
        if key in self._unforkable:
            self._events.spawn(record, self._unforkable[key])
            return
        zygote = self._by_key.get(key) or self._new(key, record.start)
        if zygote.ready:
            self._ask(zygote, record)
        else:
            zygote.waiting.append(record)

    def give_up(self, record: WorkerRecord) -> bool:
        """Takes back a worker that was not asked for yet."""
        zygote = self._by_key.get(record.start.get("zygote") or "")
        if zygote is None or record not in zygote.waiting:
            return False
        zygote.waiting.remove(record)
        return True

    def retire(self, key: str) -> None:
        """It ends after its last worker; a later START with this key begins anew."""
        self._unforkable.pop(key, None)
        zygote = self._by_key.pop(key, None)
        if zygote is None:
            return
        zygote.retired = True
        if not zygote.ready:
            kernel.kill_quietly(zygote.pid, signal.SIGKILL)
            return
        try:
            send_message(zygote.channel, {"retire": True})
        except OSError:
            pass

    def kill_all(self) -> None:
        for pid in self._by_pid:
            kernel.kill_quietly(pid, signal.SIGKILL)

    def abandon(self) -> None:
        """In a forked child."""
        for zygote in self._by_pid.values():
            zygote.channel.close()

    def _new(self, key: str, start: dict) -> Zygote:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pipes, stdout, stderr = self._outputs.open(start["worker"])
        python = start.get("python") or sys.executable
        if os.path.realpath(python) == os.path.realpath(sys.executable):
            pid = os.fork()
            if pid == 0:
                ours.close()
                self._become_zygote(theirs, stdout, stderr, start)
        else:
            pid = execute(python, "svc._runtime.zygote", theirs, stdout, stderr)
            send_message(ours, start)
        theirs.close()
        os.close(stdout)
        os.close(stderr)
        zygote = Zygote(key, pid, ours, pipes)
        self._by_key[key] = self._by_pid[pid] = self._by_descriptor[ours.fileno()] = zygote
        self._poll.register(ours, select.POLLIN)
        return zygote

    def _become_zygote(self, channel: socket.socket, stdout: int, stderr: int, start: dict) -> None:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._events.abandon()
            gc.disable()
            birth.use_as_output(stdout, stderr)
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.reconfigure(line_buffering=True)
            serve(channel, start)
        except BaseException as error:
            os.write(2, f"[svc] zygote failed: {error!r}\n".encode())
        finally:
            os._exit(70)

    def _ask(self, zygote: Zygote, record: WorkerRecord) -> None:
        record.pipes, stdout, stderr = self._outputs.open(record.id)
        record.start["importMs"], zygote.unclaimed_import_ms = zygote.unclaimed_import_ms, 0.0
        zygote.asked[record.id] = record
        try:
            send_message(zygote.channel, record.start, (stdout, stderr))
        except OSError:
            pass  # its end is noticed when it is reaped, and what was asked is dealt with there
        os.close(stdout)
        os.close(stderr)

    def read(self, descriptor: int) -> None:
        """One message of a zygote."""
        zygote = self._by_descriptor[descriptor]
        message, _ = receive_message(zygote.channel)
        if message is None:
            self._poll.unregister(descriptor)
            del self._by_descriptor[descriptor]
        elif "forked" in message:
            record = zygote.asked.pop(message["forked"], None)
            if record is not None:
                self._events.forked(record, message["pid"])
        elif "unforked" in message:
            record = zygote.asked.pop(message["unforked"], None)
            if record is not None:
                self._events.fail_boot(record, _failure(f"the machine cannot start a process: {message['why']}"))
        elif "exited" in message:
            self._events.exited(message["exited"], message["status"])
        else:
            self._import_done(zygote, message)

    def _import_done(self, zygote: Zygote, message: dict) -> None:
        waiting, zygote.waiting = zygote.waiting, []
        if "ready" in message:
            zygote.ready = True
            zygote.unclaimed_import_ms = message["ready"]
            for record in waiting:
                self._ask(zygote, record)
            return
        self._forget_key(zygote)
        for record in waiting:
            if "unforkable" in message:
                self._unforkable[zygote.key] = message["unforkable"]
                self._events.spawn(record, message["unforkable"])
            else:
                self._events.fail_boot(record, message["failed"])

    def _forget_key(self, zygote: Zygote) -> None:
        if self._by_key.get(zygote.key) is zygote:
            del self._by_key[zygote.key]

    def reaped(self, pid: int, code: int) -> None:
        zygote = self._by_pid.pop(pid)
        descriptor = zygote.channel.fileno()
        while descriptor in self._by_descriptor:  # its last words
            self.read(descriptor)
        self._forget_key(zygote)
        for pipe in zygote.pipes:
            self._outputs.close(pipe)
        zygote.channel.close()
        how = f"exited with code {code}" if code >= 0 else f"was killed by {signal_name(-code)}"
        for record in (*zygote.waiting, *zygote.asked.values()):
            if zygote.retired:
                self._events.stopped_early(record, "its build was retired")
            else:
                self._events.fail_boot(record, _failure(f"the process that imported the handler {how}"))


def _failure(message: str) -> dict:
    return {"error_type": "BootFailure", "error_message": message, "error_traceback": ""}
