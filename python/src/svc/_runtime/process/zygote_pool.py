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

from svc._runtime.confine import kernel
from svc._runtime.confine.cgroups import Confinement
from svc._runtime.confine.isolation import Isolation
from svc._runtime.limits import SPARE_DELAY_S, ZYGOTE_TTL_S
from svc._runtime.process import log
from svc._runtime.process.new_process import execute
from svc._runtime.process.nursery import Nursery
from svc._runtime.process.outputs import Outputs
from svc._runtime.process.worker_record import WorkerRecord, how_it_ended
from svc._runtime.process.zygote import send_message
from svc._runtime.process.zygote_record import (
    Child,
    Unforkable,
    Zygote,
    beyond,
    close_ends,
    close_theirs,
    failure,
    open_ends,
    receive_from,
    send_with_group,
)


class ZygotePool:
    """`events` is the launcher: forked, exited, fail_boot, no_process, stopped_early, group_left, directory_left, all_known."""

    def __init__(
        self,
        poll: select.poll,
        nursery: Nursery,
        outputs: Outputs,
        confinement: Confinement,
        isolation: Isolation,
        events,
        idle_max_bytes: float = math.inf,
    ) -> None:
        self._poll = poll
        self._idle_max_bytes = idle_max_bytes
        self._nursery = nursery
        nursery.events = self
        self._unborn: dict[int, tuple[Zygote, dict]] = {}
        """Asked of the nursery, by number, with the START for each."""
        self._ended_early: dict[int, int] = {}
        """Exit codes of children that may be zygotes whose pids are not known yet."""
        self._outputs = outputs
        self._confinement = confinement
        self._isolation = isolation
        self._events = events
        self._by_key: dict[str, Zygote] = {}
        self._by_pid: dict[int, Zygote] = {}
        self._by_descriptor: dict[int, Zygote] = {}
        self._unforkable = Unforkable()
        self._forks = 0

    def __contains__(self, pid: int) -> bool:
        return pid in self._by_pid

    def has_channel(self, descriptor: int) -> bool:
        return descriptor in self._by_descriptor

    def start(self, key: str, record: WorkerRecord) -> None:
        """Brings a worker up: by fork of its endpoint or, when that cannot be forked, of a zygote without its modules."""
        if why := self._unforkable.why(key):
            self.spawn(key, record, why)
        else:
            self._start(key, record)

    def spawn(self, key: str, record: WorkerRecord, reason: str) -> None:
        """A worker that imports its modules itself."""
        record.reason = reason
        record.start["bare"] = True
        self._start(f"{key} bare", record)

    def _start(self, key: str, record: WorkerRecord) -> None:
        zygote = self._by_key.get(key) or self._new(key, record.start)
        zygote.retire_at = None
        if zygote.ready:
            self._bring_up(zygote, record)
        else:
            zygote.waiting.append(record)

    def give_up(self, record: WorkerRecord) -> bool:
        """Takes back a worker that was not asked for yet."""
        zygote = next((each for each in self._by_key.values() if record in each.waiting), None)
        if zygote is None:
            return False
        zygote.waiting.remove(record)
        return True

    def retire(self, key: str) -> None:
        """It ends after its last worker; a later START with this key begins anew."""
        self._unforkable.forget(key)
        for each in (key, f"{key} bare"):
            zygote = self._by_key.pop(each, None)
            if zygote is not None:
                self._retire(zygote)

    def _retire(self, zygote: Zygote) -> None:
        zygote.retired = True
        zygote.spare_at = zygote.retire_at = None
        zygote.drop_spare()
        if not zygote.ready:
            if zygote.pid:
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
                    try:
                        zygote.spare = self._fork(zygote, start, start.get("ahead"))
                    except OSError:
                        pass  # the next worker is forked when it is wanted
            if zygote.retire_at is not None and now >= zygote.retire_at:
                self.retire(zygote.key)

    def _new(self, key: str, start: dict) -> Zygote:
        ours, theirs, pipes, stdout, stderr = open_ends(self._outputs, start["worker"])
        # Numbers of processes that the other side names mean nothing here: the kernel says who sent a message.
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        zygote = Zygote(key, ours, pipes, self._confinement.group(start))
        way = self._isolation.way(start)
        zygote.has_namespaces = bool(way)
        start = {**start, "shared": f"zygote-{os.urandom(8).hex()}", "limits": zygote.group.kind}
        if way and start.get("tempDir"):
            zygote.folder = os.path.join(os.path.dirname(start["tempDir"]), start["shared"])
        python = start.get("python") or sys.executable
        if os.path.realpath(python) == os.path.realpath(sys.executable):
            self._forks += 1
            self._unborn[self._forks] = zygote, start
            self._nursery.request(self._forks, (theirs.detach(), stdout, stderr), way)
        else:
            try:
                zygote.pid = execute(python, "svc._runtime.process.zygote", theirs, stdout, stderr, way)
                send_with_group(ours, start, zygote.group)
            except OSError:
                close_ends(self._outputs, ours, pipes)
                self._events.group_left(zygote.group)
                raise
            finally:
                close_theirs(theirs, stdout, stderr)
            self._by_pid[zygote.pid] = zygote
        self._by_key[key] = self._by_descriptor[ours.fileno()] = zygote
        self._poll.register(ours, select.POLLIN)
        return zygote

    # The nursery answers.

    def born(self, number: int, pid: int) -> None:
        zygote, start = self._unborn.pop(number)
        zygote.pid = pid
        self._by_pid[pid] = zygote
        code = self._ended_early.pop(pid, None)
        if code is not None:
            self.reaped(pid, code)
        elif zygote.retired:
            kernel.kill_quietly(pid, signal.SIGKILL)
        else:
            self._send_start(zygote, start)
        self._told()

    def _send_start(self, zygote: Zygote, start: dict) -> None:
        """Not before it is this process's child: it ties itself to the parent that it has when it reads that."""
        try:
            send_with_group(zygote.channel, start, zygote.group)
        except OSError:
            pass  # its end is noticed when it is reaped

    def unborn(self, number: int, why: str) -> None:
        zygote, _ = self._unborn.pop(number)
        self._forget_key(zygote)
        if self._by_descriptor.pop(zygote.channel.fileno(), None) is not None:
            self._poll.unregister(zygote.channel)
        close_ends(self._outputs, zygote.channel, zygote.pipes)
        self._events.group_left(zygote.group)
        for record in zygote.waiting:  # One that was made though nobody could tell ends with its channel.
            self._events.no_process(record, why)
        self._told()

    def _told(self) -> None:
        if not self._nursery.bears:
            self._ended_early.clear()
            self._events.all_known()

    def ended_early(self, pid: int, code: int) -> None:
        """An unknown child ended: perhaps a zygote whose pid is on its way."""
        if self._nursery.bears:
            self._ended_early[pid] = code

    def _bring_up(self, zygote: Zygote, record: WorkerRecord) -> None:
        """Gives the worker to the spare, or to a new fork; its START may arrive before the fork has happened."""
        start = record.start
        start["importMs"], zygote.unclaimed_import_ms = zygote.unclaimed_import_ms, 0.0
        child, zygote.spare = zygote.spare, None
        if child is None or not child.group.fits(start) or not child.hand_over(start):
            if child is not None:
                child.let_go()
            child = self._fork(zygote, start)
            child.hand_over(start)
        child.record = record
        record.pipes, record.group = child.pipes, child.group
        for pipe in record.pipes:
            pipe.worker = record.id
        zygote.spare_at = (monotonic() + SPARE_DELAY_S, start)
        if child.pid:
            self._events.forked(record, child.pid)

    def _fork(self, zygote: Zygote, start: dict, ahead: str | None = None) -> Child:
        ours, theirs, pipes, stdout, stderr = open_ends(self._outputs, "")
        group = self._confinement.group(start)
        self._forks += 1
        child = zygote.children[self._forks] = Child(self._forks, ours, group, pipes)
        request = {"fork": child.number, **group.to_join(), **({"ahead": ahead} if ahead else {})}
        try:
            send_with_group(zygote.channel, request, group, (theirs.fileno(), stdout, stderr))
        except BlockingIOError:
            del zygote.children[child.number]
            self._child_ended(zygote, child)
            raise
        except OSError:
            pass  # its end is noticed when it is reaped, and its children are dealt with there
        finally:
            close_theirs(theirs, stdout, stderr)
        return child

    def _child_ended(self, zygote: Zygote, child: Child) -> None:
        """A spare leaves its pipes and its group; those of a worker are the launcher's to close."""
        if child.record is None:
            if zygote.spare is child:
                zygote.spare = None
            child.let_go()
            for pipe in child.pipes:
                self._outputs.close(pipe)
            self._events.group_left(child.group)
        elif not zygote.retired and not any(other.record for other in zygote.children.values()):
            self._became_idle(zygote)

    def _became_idle(self, zygote: Zygote) -> None:
        zygote.retire_at = monotonic() + ZYGOTE_TTL_S
        zygote.measure()
        for each in beyond(self._idle_max_bytes, self._by_key.values()):
            self.retire(each.key)

    def read(self, descriptor: int) -> bool:
        """One message of a zygote. False: none is there, and the event was about one that had this number before."""
        zygote = self._by_descriptor[descriptor]
        try:
            message, sender = receive_from(zygote.channel)
            if message is not None:
                self._take(zygote, message, sender)
        except BlockingIOError:
            return False
        except (LookupError, OverflowError, RecursionError, TypeError, ValueError) as error:
            # Code of the user has its channel: unheard, it fills neither the log nor the launcher's time.
            zygote.fault, message = "said what is no message", None
            log.tell(f"a zygote {zygote.fault}, and is ended: {error!r}")
            if zygote.pid in self._by_pid:  # not when these are its last words
                kernel.kill_quietly(zygote.pid, signal.SIGKILL)
        if message is None:
            self._poll.unregister(descriptor)
            del self._by_descriptor[descriptor]
        return True

    def _take(self, zygote: Zygote, message: dict, sender: int) -> None:
        if "forked" in message:
            child = zygote.children[message["forked"]]
            if not child.pid and sender:
                child.pid = sender
                self._unforkable.forked(zygote.key)
                if child.record is not None:
                    self._events.forked(child.record, child.pid)
        elif "unforked" in message:
            child = zygote.children.pop(message["unforked"])
            self._child_ended(zygote, child)
            if child.record is not None:
                self._events.no_process(child.record, message["why"])
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
            zygote.ready, zygote.unclaimed_import_ms = True, message["ready"]
            for record in waiting:
                try:
                    self._bring_up(zygote, record)
                except OSError as error:
                    self._events.no_process(record, error.strerror)
            if not waiting:
                self._became_idle(zygote)
            return
        self._forget_key(zygote)
        if "unforkable" in message:
            self._unforkable.say(zygote.key, message["unforkable"])
        for record in waiting:
            if "failed" in message:
                self._events.fail_boot(record, message["failed"])
            else:
                self._start_again(record)

    def _forget_key(self, zygote: Zygote) -> None:
        if self._by_key.get(zygote.key) is zygote:
            del self._by_key[zygote.key]

    def reaped(self, pid: int, code: int) -> None:
        zygote = self._by_pid.pop(pid)
        descriptor = zygote.channel.fileno()
        while descriptor in self._by_descriptor and self.read(descriptor):  # its last words
            pass
        if self._by_descriptor.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)
        self._forget_key(zygote)
        for pipe in zygote.pipes:
            self._outputs.close(pipe)
        zygote.channel.close()
        self._events.group_left(zygote.group)
        if zygote.folder:
            self._events.directory_left(zygote.folder)
        how = zygote.fault or how_it_ended(code)
        children, zygote.children = zygote.children, {}
        for child in children.values():
            self._child_ended(zygote, child)
            if zygote.has_namespaces and child.record is not None and child.pid:
                self._events.exited(child.record.id, -signal.SIGKILL)
        unborn = [child.record for child in children.values() if child.record is not None and not child.pid]
        if zygote.ready and unborn:
            self._unforkable.ended(zygote.key, f"the process that forks its workers {how}")
        zygote.spare_at = zygote.retire_at = None
        for record in (*zygote.waiting, *unborn):
            if zygote.retired:
                self._events.stopped_early(record, "its build was retired")
            elif zygote.ready and not zygote.fault:
                self._leave(record)
                self._start_again(record)  # its code can be imported: another zygote forks it
            else:
                self._events.fail_boot(record, failure(f"the process that imported the handler {how}"))

    def _leave(self, record: WorkerRecord) -> None:
        """What it had of a child that never came."""
        for pipe in record.pipes:
            self._outputs.close(pipe)
        if record.group is not None:
            self._events.group_left(record.group)
        record.pipes, record.group = [], None

    def _start_again(self, record: WorkerRecord) -> None:
        try:
            key = record.start["zygote"]
            if record.start.get("bare"):
                self.spawn(key, record, record.reason)
            else:
                self.start(key, record)
        except OSError as error:
            self._events.no_process(record, error.strerror)
