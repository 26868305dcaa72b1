"""The launcher: the one process that forks. The platform starts it once, small, and talks to it over the socket.

    platform ═frames═ launcher ─┬─ zygote (one per build and endpoint) ─┬─ worker
                                │                                       └─ worker
                                └─ zygote without modules (boot OFF, or a module that a fork would break) ── worker

Run as `python3 -I -S launcher.py` with one JSON line on stdin: {"socket", "token", "id", "reconnectMs"?, "tempRoot"?, "leavesWithAgent"?}. It leaves the
platform's session, outlives it, and ends itself and its workers when the platform does not come back in time.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from svc._runtime.launcher import main

    main()
    sys.exit(0)

import errno
import json
import math
import select
import signal
import socket
from time import monotonic

from svc._runtime.confine import kernel
from svc._runtime.confine.cgroups import Confinement, Group
from svc._runtime.confine.held_ports import HeldPorts
from svc._runtime.confine.isolation import Isolation
from svc._runtime.limits import RECONNECT_DEFAULT_MS, SIGNAL_AGAIN_MS, WORKER_STOPPED_MAX_S
from svc._runtime.link import protocol
from svc._runtime.link.platform_link import PlatformLink
from svc._runtime.link.protocol import boot_failed, encode, parse_head
from svc._runtime.process import log
from svc._runtime.process.new_process import clean_environment
from svc._runtime.process.nursery import Nursery
from svc._runtime.process.outputs import Outputs
from svc._runtime.process.remains import Remains
from svc._runtime.process.worker_record import WorkerRecord, check_start, exit_reason, signal_name
from svc._runtime.process.worker_watch import LimitWatch, StoppedWorkers
from svc._runtime.process.zygote_pool import ZygotePool


class Launcher:
    def __init__(self, settings: dict, isolation: Isolation) -> None:
        reconnect_s = (settings.get("reconnectMs") or RECONNECT_DEFAULT_MS) / 1000
        self._link = PlatformLink(settings["socket"], settings["token"], settings["id"], reconnect_s, self._alive)
        self._confinement = Confinement(f"{settings['id']}-{os.getpid()}")
        self._workers: dict[str, WorkerRecord] = {}
        self._stop_at: float | None = None
        self._was_told = False
        """To end, by a signal: a handler that did it itself could do so in the midst of a start."""
        self._poll = select.poll()
        self._outputs = Outputs(self._poll, self._link)
        idle_max = settings.get("zygoteMemoryBytes", math.inf)
        self._nursery = Nursery(self._poll)
        self._zygotes = ZygotePool(self._poll, self._nursery, self._outputs, self._confinement, isolation, self, idle_max)
        self._remains = Remains(self._is_known)
        self._temp_root = settings.get("tempRoot")
        self._leaves_with_agent = settings.get("leavesWithAgent", False)
        self._limit_watch = LimitWatch(self._kill)
        self._stopped = StoppedWorkers(self._workers, settings.get("stoppedMaxMs", WORKER_STOPPED_MAX_S * 1000) / 1000)
        self._isolation = isolation
        self._ports = HeldPorts()
        self._link_descriptor = -1
        self._link_events = 0
        self._wake_read, self._wake_write = os.pipe()
        for descriptor in (self._wake_read, self._wake_write):
            os.set_blocking(descriptor, False)
        self._poll.register(self._wake_read, select.POLLIN)

    # The loop.

    def run(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # A kubelet tells every container of a Pod at once to end: the agent of the other one says when.
        signal.signal(signal.SIGTERM, signal.SIG_IGN if self._leaves_with_agent else self._on_term)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        self._guarded(self._remains.remove_earlier, self._confinement.stale, self._temp_root)
        while True:
            self._link.tick()
            if (self._link.over or self._was_told) and self._stop_at is None:
                self._shut_down(0)
            if self._stop_at is not None and not self._workers:
                break
            self._watch_link()
            for descriptor, events in self._events():
                self._guarded(self._on_event, descriptor, events)
            self._guarded(self._on_time)
        self._zygotes.kill_all()
        self._link.flush(1.0)
        self._remains.sweep()
        self._confinement.close()

    def _on_term(self, *_) -> None:
        self._was_told = True

    def _events(self) -> list[tuple[int, int]]:
        try:
            return self._poll.poll(self._wait_ms())
        except OSError as error:
            # More is watched than may be open: somebody lowered the limit since.
            if error.errno != errno.EINVAL or not kernel.raise_descriptor_limit():
                raise
            return []

    def _guarded(self, step, *arguments) -> None:
        """One bad frame or a full process table must not end every worker."""
        try:
            step(*arguments)
        except Exception:
            import traceback

            log.tell(f"launcher: {traceback.format_exc()}")

    def _watch_link(self) -> None:
        descriptor, events = self._link.descriptor, self._link.events
        if (descriptor, events) != (self._link_descriptor, self._link_events):
            if self._link_descriptor >= 0 and self._link_descriptor != descriptor:
                try:
                    self._poll.unregister(self._link_descriptor)
                except KeyError:
                    pass
            if descriptor >= 0:
                self._poll.register(descriptor, events)
            self._link_descriptor, self._link_events = descriptor, events

    def _wait_ms(self) -> float | None:
        planned = [(record.stop_at, record.term_at) for record in self._workers.values() if record.stopping]
        times = [at for pair in planned for at in pair if at is not None]
        if self._link.descriptor < 0 or self._link.next_try > monotonic():
            times.append(self._link.next_try)
        tasks = (self._remains, self._zygotes, self._nursery, self._limit_watch, self._stopped)
        times += [task.look_at for task in tasks if task.look_at is not None]
        return max(0.0, (min(times) - monotonic()) * 1000) + 0.5 if times else None

    def _on_event(self, descriptor: int, events: int) -> None:
        if descriptor == self._wake_read:
            self._reap()
        elif descriptor in self._outputs:
            self._outputs.read(descriptor)
        elif self._zygotes.has_channel(descriptor):
            self._zygotes.read(descriptor)
        elif descriptor == self._nursery.descriptor:
            self._nursery.read()
        elif descriptor == self._link.descriptor:
            if events & select.POLLOUT:
                self._link.writable()
            if events & ~select.POLLOUT:
                for frame in self._link.readable():
                    self._guarded(self._on_frame, frame)

    def _on_time(self) -> None:
        now = monotonic()
        for record in list(self._workers.values()):
            if record.term_at is not None and now >= record.term_at:
                self._terminate(record)
            if record.stop_at is not None and now >= record.stop_at:
                record.stop_at = record.term_at = None
                record.killed = "killed: it did not stop within the grace period"
                self._kill(record)
        for record in self._stopped.overdue():
            record.killed = "killed: its process was stopped (SIGSTOP) and did not go on"
            self._kill(record)
        if self._remains.look_at is not None and now >= self._remains.look_at:
            self._remains.sweep()
        self._zygotes.on_time()
        self._nursery.on_time()
        self._limit_watch.on_time()

    def _on_frame(self, frame: tuple) -> None:
        type, _, _, head, body = frame
        if type == protocol.START:
            head = parse_head(head)
            self._start({**head, "env": json.loads(body)} if body else head)
        elif type == protocol.STOP:
            head = parse_head(head)
            record = self._workers.get(head["worker"])
            if record is not None:
                self._stop(record, head.get("graceMs", 0))
        elif type == protocol.RETIRE:
            self._zygotes.retire(parse_head(head)["zygote"])
        elif type == protocol.HOLD:
            self._ports.hold(parse_head(head)["addresses"])
        elif type == protocol.SHUTDOWN:
            self._shut_down(parse_head(head).get("graceMs", 0))

    # Starting.

    def _alive(self) -> dict:
        """Head of WORKERS."""
        workers = [
            {"worker": record.id, "pid": record.pid, "share": record.start.get("share")}
            for record in self._workers.values()
        ]
        return {"workers": workers, "missing": self._isolation.missing(), "strict": self._isolation.can_be_strict}

    def _start(self, start: dict) -> None:
        if start["worker"] in self._workers or self._stop_at is not None:
            return
        began = monotonic()
        record = WorkerRecord(start, began)
        self._workers[record.id] = record
        try:
            check_start(start)
            start["startedAt"] = began
            start["offers"] = self._isolation.facts
            start["holdsPorts"] = bool(self._ports)
            start["platform"] = self._link.platform(bool(self._isolation.way(start)))
            self._bring_up(record)
        except OSError as error:
            self.no_process(record, error.strerror)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            self.no_process(record, f"START is not as it should be: {error!r}")

    def _bring_up(self, record: WorkerRecord) -> None:
        start = record.start
        key = start.get("zygote") or ""
        if start.get("boot") == "OFF":
            self._zygotes.spawn(key, record, "boot is OFF")
        elif not key:
            self._zygotes.spawn(record.id, record, "no zygote was named")
        else:
            self._zygotes.start(key, record)

    def forked(self, record: WorkerRecord, pid: int) -> None:
        record.pid = pid
        self._limit_watch.begun(record)
        record.how = how = "spawn" if record.reason else "fork"
        head = {"worker": record.id, "pid": record.pid, "how": how, "limits": record.group.kind}
        head["isolation"] = self._isolation.in_force(record.start)
        if record.reason:
            head["reason"] = record.reason
        self._link.send(encode(protocol.STARTED, 0, head))
        if record.stopping:
            self._terminate(record)

    def fail_boot(self, record: WorkerRecord, fields: dict) -> None:
        self._link.send(boot_failed({"worker": record.id, **fields}))
        self._forget(record, {"code": 1, "signal": None, "reason": "the handler could not be loaded"})

    def no_process(self, record: WorkerRecord, why: str | None) -> None:
        """The machine's fault, not that of the code: the platform may try again."""
        reason = f"the machine cannot start a process: {why}"
        self._forget(record, {"code": None, "signal": None, "cause": "machine", "reason": reason})

    def stopped_early(self, record: WorkerRecord, reason: str) -> None:
        self._forget(record, {"code": None, "signal": None, "reason": reason})

    def group_left(self, group: Group) -> None:
        self._remains.remove_group(group)

    def directory_left(self, directory: str) -> None:
        self._remains.remove_directory(directory)

    # Stopping.

    def _stop(self, record: WorkerRecord, grace_ms: float) -> None:
        if not record.pid:
            if self._zygotes.give_up(record):
                self.stopped_early(record, "stopped before it began")
                return
        else:
            self._terminate(record)
        record.stopping = True
        stop_at = monotonic() + grace_ms / 1000
        record.stop_at = stop_at if record.stop_at is None else min(record.stop_at, stop_at)

    def _terminate(self, record: WorkerRecord) -> None:
        kernel.kill_quietly(record.pid, signal.SIGTERM)
        record.term_at = monotonic() + SIGNAL_AGAIN_MS / 1000

    def _kill(self, record: WorkerRecord) -> None:
        if record.pid:
            kernel.kill_descendants(record.pid)
            kernel.kill_quietly(record.pid, signal.SIGKILL)
        else:
            record.stop_at = monotonic() + 0.05  # the zygote is about to fork it

    def _shut_down(self, grace_ms: float) -> None:
        self._stop_at = monotonic() + grace_ms / 1000
        for record in list(self._workers.values()):
            self._stop(record, grace_ms)

    # Ends.

    def _reap(self) -> None:
        for pid, code in kernel.ended_children(self._wake_read):
            if pid == self._nursery.pid:
                self._nursery.reaped(code)
                self._remains.sweep()
                continue
            self._nursery.read()
            if pid in self._zygotes:
                self._zygotes.reaped(pid, code)
                continue
            self._zygotes.ended_early(pid, code)
            self._remains.reaped(pid)
            record = self._with_pid(pid)
            if record is not None:
                self._ended(record, code)

    def _with_pid(self, pid: int) -> WorkerRecord | None:
        """A forked worker is ours to reap when its zygote died before it."""
        return next((record for record in self._workers.values() if record.pid == pid), None)

    def _is_known(self, pid: int) -> bool:
        if self._nursery.bears or pid == self._nursery.pid:
            return True
        return pid in self._zygotes or self._with_pid(pid) is not None

    def all_known(self) -> None:
        """No zygote is on its way: strays that were spared until now can be told apart."""
        self._remains.sweep()

    def exited(self, worker: str, status: int) -> None:
        """A zygote reaped one of its workers."""
        record = self._workers.get(worker)
        if record is not None:
            self._ended(record, status)

    def _ended(self, record: WorkerRecord, status: int) -> None:
        head = {
            "code": status if status >= 0 else None,
            "signal": signal_name(-status) if status < 0 else None,
            "reason": exit_reason(record, status),
        }
        self._forget(record, head)
        self._remains.sweep()

    def _forget(self, record: WorkerRecord, head: dict) -> None:
        """The end of a worker: last output, EXITED, and nothing of it stays."""
        if self._workers.pop(record.id, None) is None:
            return
        self._limit_watch.ended(record)
        for pipe in record.pipes:
            self._outputs.close(pipe)
        self._link.send(encode(protocol.EXITED, 0, {"worker": record.id, **head}))
        if record.group is not None:
            self._remains.remove_group(record.group)
        directory = record.start.get("tempDir")
        if directory and isinstance(directory, str):
            self._remains.remove_directory(directory)


def main() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.setsid()
    except PermissionError:
        pass  # a session leader already
    clean_environment()
    kernel.become_subreaper()
    isolation = Isolation.find()
    settings = json.loads(sys.stdin.readline())
    os.dup2(nothing, 0)
    os.close(nothing)
    Launcher(settings, isolation).run()
