"""The launcher's zygotes by key: made on first need, asked to fork, forgotten when their import fails or nobody needs them.

A zygote whose workers were started keeps one spare: a child forked ahead that waits for its START. The first worker
after a pause then needs no fork; the next spare is made when the burst is over.

Zygotes without a worker wait for the next one, within a bound of memory: beyond it those used longest ago go first. The
one used last stays, and so do those with workers: their pages are their workers' too.
"""

from __future__ import annotations

import math
import os
import select
import signal
import socket
import sys
from time import monotonic

from svc._runtime import kernel
from svc._runtime.confine import Confinement, Group
from svc._runtime.execute import execute
from svc._runtime.limits import SPARE_DELAY_S, ZYGOTE_TTL_S
from svc._runtime.nursery import Nursery
from svc._runtime.output import OutputPipe
from svc._runtime.outputs import Outputs
from svc._runtime.worker_record import WorkerRecord, signal_name
from svc._runtime.zygote import receive_message, send_message


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


class Zygote:
    __slots__ = (
        "channel", "children", "idle_bytes", "key", "pid", "pipes", "ready", "retire_at", "retired", "spare", "spare_at",
        "unclaimed_import_ms", "waiting",
    )  # fmt: skip

    def __init__(self, key: str, pid: int, channel: socket.socket, pipes: list[OutputPipe]) -> None:
        self.key = key
        self.pid = pid
        self.channel = channel
        self.pipes = pipes
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


class ZygotePool:
    """`events` is the launcher: forked, exited, spawn, fail_boot, stopped_early, group_left."""

    def __init__(
        self,
        poll: select.poll,
        nursery: Nursery,
        outputs: Outputs,
        confinement: Confinement,
        events,
        idle_max_bytes: float = math.inf,
    ) -> None:
        self._poll = poll
        self._idle_max_bytes = idle_max_bytes
        self._nursery = nursery
        self._outputs = outputs
        self._confinement = confinement
        self._events = events
        self._by_key: dict[str, Zygote] = {}
        self._by_pid: dict[int, Zygote] = {}
        self._by_descriptor: dict[int, Zygote] = {}
        self._unforkable: dict[str, str] = {}
        """Key to why its workers are spawned."""
        self._forks = 0

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
        zygote.retire_at = None
        if zygote.ready:
            self._bring_up(zygote, record)
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
        zygote.spare_at = zygote.retire_at = None
        self._drop_spare(zygote)
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

    @property
    def look_at(self) -> float | None:
        """When to call `on_time` next."""
        times = [zygote.spare_at[0] for zygote in self._by_key.values() if zygote.spare_at is not None]
        times += [zygote.retire_at for zygote in self._by_key.values() if zygote.retire_at is not None]
        return min(times, default=None)

    def on_time(self) -> None:
        """Makes spares, and retires zygotes that had no worker for long."""
        now = monotonic()
        for zygote in list(self._by_key.values()):
            if zygote.spare_at is not None and now >= zygote.spare_at[0]:
                (_, start), zygote.spare_at = zygote.spare_at, None
                if zygote.spare is None:
                    zygote.spare = self._fork(zygote, start)
            if zygote.retire_at is not None and now >= zygote.retire_at:
                self.retire(zygote.key)

    def _new(self, key: str, start: dict) -> Zygote:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pipes, stdout, stderr = self._outputs.open(start["worker"])
        python = start.get("python") or sys.executable
        if os.path.realpath(python) == os.path.realpath(sys.executable):
            pid = self._nursery.fork_zygote(theirs, stdout, stderr)
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

    def _bring_up(self, zygote: Zygote, record: WorkerRecord) -> None:
        """Gives the worker to the spare, or to a new fork; its START may arrive before the fork has happened."""
        start = record.start
        start["importMs"], zygote.unclaimed_import_ms = zygote.unclaimed_import_ms, 0.0
        child, zygote.spare = zygote.spare, None
        if child is None or not child.group.fits(start) or not self._hand_over(child, start):
            if child is not None:
                self._end_spare(child)
            child = self._fork(zygote, start)
            self._hand_over(child, start)
        child.record = record
        record.pipes, record.group = child.pipes, child.group
        for pipe in record.pipes:
            pipe.worker = record.id
        zygote.spare_at = (monotonic() + SPARE_DELAY_S, start)
        if child.pid:
            self._events.forked(record, child.pid)

    def _hand_over(self, child: Child, start: dict) -> bool:
        """False when it has died: the zygote reports its end."""
        channel, child.channel = child.channel, None
        try:
            send_message(channel, start)
        except OSError:
            return False
        finally:
            channel.close()
        return True

    def _fork(self, zygote: Zygote, start: dict) -> Child:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pipes, stdout, stderr = self._outputs.open("")
        group = self._confinement.group(start)
        self._forks += 1
        child = zygote.children[self._forks] = Child(self._forks, ours, group, pipes)
        request = {"fork": child.number, **group.to_join()}
        try:
            send_message(zygote.channel, request, (theirs.fileno(), stdout, stderr))
        except OSError:
            pass  # its end is noticed when it is reaped, and its children are dealt with there
        theirs.close()
        os.close(stdout)
        os.close(stderr)
        return child

    def _drop_spare(self, zygote: Zygote) -> None:
        spare, zygote.spare = zygote.spare, None
        if spare is not None:
            self._end_spare(spare)

    def _end_spare(self, spare: Child) -> None:
        """It ends by itself when its channel closes."""
        if spare.channel is not None:
            spare.channel.close()
            spare.channel = None

    def _child_ended(self, zygote: Zygote, child: Child) -> None:
        """A spare leaves its pipes and its group; those of a worker are the launcher's to close."""
        if child.record is None:
            if zygote.spare is child:
                zygote.spare = None
            self._end_spare(child)
            for pipe in child.pipes:
                self._outputs.close(pipe)
            self._events.group_left(child.group)
        elif not zygote.retired and not any(other.record for other in zygote.children.values()):
            self._became_idle(zygote)

    def _became_idle(self, zygote: Zygote) -> None:
        zygote.retire_at = monotonic() + ZYGOTE_TTL_S
        pids = [zygote.pid, *(child.pid for child in zygote.children.values() if child.pid)]
        zygote.idle_bytes = sum(map(kernel.proportional_bytes, pids))
        idle = [each for each in self._by_key.values() if each.retire_at is not None]
        idle.sort(key=lambda each: each.retire_at)
        held = sum(each.idle_bytes for each in idle)
        for each in idle[:-1]:
            if held <= self._idle_max_bytes:
                break
            held -= each.idle_bytes
            self.retire(each.key)

    def read(self, descriptor: int) -> None:
        """One message of a zygote."""
        zygote = self._by_descriptor[descriptor]
        message, _ = receive_message(zygote.channel)
        if message is None:
            self._poll.unregister(descriptor)
            del self._by_descriptor[descriptor]
        elif "forked" in message:
            child = zygote.children[message["forked"]]
            child.pid = message["pid"]
            if child.record is not None:
                self._events.forked(child.record, child.pid)
        elif "unforked" in message:
            child = zygote.children.pop(message["unforked"])
            self._child_ended(zygote, child)
            if child.record is not None:
                why = f"the machine cannot start a process: {message['why']}"
                self._events.fail_boot(child.record, _failure(why))
        elif "exited" in message:
            child = zygote.children.pop(message["exited"])
            self._child_ended(zygote, child)
            if child.record is not None:
                self._events.exited(child.record.id, message["status"])
        else:
            self._import_done(zygote, message)

    def _import_done(self, zygote: Zygote, message: dict) -> None:
        waiting, zygote.waiting = zygote.waiting, []
        if "ready" in message:
            zygote.ready = True
            zygote.unclaimed_import_ms = message["ready"]
            for record in waiting:
                self._bring_up(zygote, record)
            if not waiting:
                self._became_idle(zygote)
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
        children, zygote.children = zygote.children, {}
        for child in children.values():
            self._child_ended(zygote, child)
        unborn = [child.record for child in children.values() if child.record is not None and not child.pid]
        zygote.spare_at = zygote.retire_at = None
        for record in (*zygote.waiting, *unborn):
            if zygote.retired:
                self._events.stopped_early(record, "its build was retired")
            else:
                self._events.fail_boot(record, _failure(f"the process that imported the handler {how}"))


def _failure(message: str) -> dict:
    return {"error_type": "BootFailure", "error_message": message, "error_traceback": ""}
