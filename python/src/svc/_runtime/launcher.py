"""The launcher: the one process that forks. The platform starts it once, small, and talks to it over the socket.

    platform ═frames═ launcher ─┬─ zygote (one per build and endpoint) ─┬─ worker
                                │                                       └─ worker
                                └─ worker in a fresh interpreter (boot OFF, or a module that a fork would break)

Run as `python3 -I -S launcher.py` with one JSON line on stdin: {"socket", "token", "id", "reconnectMs"?}. It leaves the
platform's session, outlives it, and ends itself and its workers when the platform does not come back in time.

It is a child subreaper and knows its own children, and every worker is a subreaper too: what a dead worker left
behind (also after a double fork and setsid) turns up here as an unknown child and is killed.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from svc._runtime.launcher import main

    main()
    sys.exit(0)

import gc
import json
import select
import signal
import socket
from time import monotonic

from svc._runtime import birth, kernel, protocol
from svc._runtime.confine import Confinement
from svc._runtime.limits import RECONNECT_DEFAULT_MS, START_MESSAGE_MAX_BYTES
from svc._runtime.output import RateLimit
from svc._runtime.platform_link import PlatformLink
from svc._runtime.protocol import encode, parse_head
from svc._runtime.worker import boot_failed
from svc._runtime.worker_record import OutputPipe, WorkerRecord, exit_reason, signal_name
from svc._runtime.zygote import receive_message, send_message, serve

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Nothing else of the platform's environment reaches a worker: it may hold secrets.
_INHERITED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")
_INHERITED_PREFIXES = ("LC_", "CUDA_", "NVIDIA_")


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
        self.asked: dict[str, WorkerRecord] = {}
        self.unclaimed_import_ms = 0.0


class Launcher:
    def __init__(self, settings: dict) -> None:
        reconnect_s = (settings.get("reconnectMs") or RECONNECT_DEFAULT_MS) / 1000
        self._link = PlatformLink(settings["socket"], settings["token"], settings["id"], reconnect_s, self._alive)
        self._confinement = Confinement(f"{settings['id']}-{os.getpid()}")
        self._workers: dict[str, WorkerRecord] = {}
        self._zygotes: dict[str, Zygote] = {}
        self._unforkable: dict[str, str] = {}
        """Zygote key to why its workers are spawned."""
        self._children: dict[int, object] = {}
        """Every child that is meant to be: pid to Zygote, WorkerRecord or None (a cleaner)."""
        self._pipes: dict[int, OutputPipe] = {}
        self._channels: dict[int, Zygote] = {}
        self._emptying: list = []
        self._strays_at: float | None = None
        self._stop_at: float | None = None
        self._poll = select.poll()
        self._link_descriptor = -1
        self._link_events = 0
        self._wake_read, self._wake_write = os.pipe()
        for descriptor in (self._wake_read, self._wake_write):
            os.set_blocking(descriptor, False)
        self._poll.register(self._wake_read, select.POLLIN)

    # The loop.

    def run(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._shut_down(0))
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        while True:
            self._link.tick()
            if self._link.over and self._stop_at is None:
                self._shut_down(0)
            if self._stop_at is not None and not self._workers:
                break
            self._watch_link()
            for descriptor, events in self._poll.poll(self._wait_ms()):
                self._on_event(descriptor, events)
            self._on_time()
        for zygote in self._zygotes.values():
            kernel.kill_quietly(zygote.pid, signal.SIGKILL)
        self._link.flush(1.0)
        self._kill_strays()
        self._confinement.close()

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
        times = [record.stop_at for record in self._workers.values() if record.stop_at is not None]
        if self._link.descriptor < 0 or self._link.next_try > monotonic():
            times.append(self._link.next_try)
        if self._strays_at is not None:
            times.append(self._strays_at)
        return max(0.0, (min(times) - monotonic()) * 1000) + 0.5 if times else None

    def _on_event(self, descriptor: int, events: int) -> None:
        if descriptor == self._wake_read:
            self._reap()
        elif descriptor in self._pipes:
            self._read_pipe(self._pipes[descriptor])
        elif descriptor in self._channels:
            self._read_zygote(self._channels[descriptor])
        elif descriptor == self._link.descriptor:
            if events & select.POLLOUT:
                self._link.writable()
            if events & ~select.POLLOUT:
                for frame in self._link.readable():
                    self._on_frame(frame)

    def _on_time(self) -> None:
        now = monotonic()
        for record in list(self._workers.values()):
            if record.stop_at is not None and now >= record.stop_at:
                record.stop_at = None
                record.killed = "killed: it did not stop within the grace period"
                self._kill(record)
        if self._strays_at is not None and now >= self._strays_at:
            self._kill_strays()

    def _on_frame(self, frame: tuple) -> None:
        type, _, _, head, _ = frame
        if type == protocol.START:
            self._start(parse_head(head))
        elif type == protocol.STOP:
            head = parse_head(head)
            record = self._workers.get(head["worker"])
            if record is not None:
                self._stop(record, head.get("graceMs", 0))
        elif type == protocol.RETIRE:
            self._retire(parse_head(head)["zygote"])
        elif type == protocol.SHUTDOWN:
            self._shut_down(parse_head(head).get("graceMs", 0))

    # Starting.

    def _alive(self) -> list[dict]:
        return [{"worker": record.id, "pid": record.pid} for record in self._workers.values()]

    def _start(self, start: dict) -> None:
        if start["worker"] in self._workers or self._stop_at is not None:
            return
        began = monotonic()
        memory_bytes, vcpus = start.get("memoryBytes") or 0, start.get("vcpus") or 0
        group = self._confinement.group(start["worker"], memory_bytes, vcpus)
        record = WorkerRecord(start, group, began)
        self._workers[record.id] = record
        start["startedAt"] = began
        start["joinFiles"] = group.join_files
        start["limits"] = group.kind
        if len(json.dumps(start)) > START_MESSAGE_MAX_BYTES:
            self._fail_boot(record, _plain_failure("the endpoint's environment variables are too large"))
            return
        key = start.get("zygote") or ""
        if start.get("boot") == "OFF":
            self._spawn(record, "boot is OFF")
        elif not key:
            self._spawn(record, "no zygote was named")
        elif key in self._unforkable:
            self._spawn(record, self._unforkable[key])
        else:
            zygote = self._zygotes.get(key) or self._new_zygote(key, start)
            if zygote.ready:
                self._ask(zygote, record)
            else:
                zygote.waiting.append(record)

    def _new_pipes(self, worker: str) -> tuple[list[OutputPipe], int, int]:
        rate = RateLimit()
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        pipes = [OutputPipe(out_read, "stdout", worker, rate), OutputPipe(err_read, "stderr", worker, rate)]
        for pipe in pipes:
            self._pipes[pipe.descriptor] = pipe
            self._poll.register(pipe.descriptor, select.POLLIN)
        return pipes, out_write, err_write

    def _new_zygote(self, key: str, start: dict) -> Zygote:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pipes, stdout, stderr = self._new_pipes(start["worker"])
        python = start.get("python") or sys.executable
        if os.path.realpath(python) == os.path.realpath(sys.executable):
            pid = os.fork()
            if pid == 0:
                ours.close()
                self._become_zygote(theirs, stdout, stderr, start)
        else:
            pid = self._execute(python, "svc._runtime.zygote", theirs, stdout, stderr)
            send_message(ours, start)
        theirs.close()
        os.close(stdout)
        os.close(stderr)
        zygote = Zygote(key, pid, ours, pipes)
        self._zygotes[key] = zygote
        self._children[pid] = zygote
        self._channels[ours.fileno()] = zygote
        self._poll.register(ours, select.POLLIN)
        return zygote

    def _become_zygote(self, channel: socket.socket, stdout: int, stderr: int, start: dict) -> None:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._abandon()
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

    def _abandon(self) -> None:
        """In a forked child: everything of the launcher is let go."""
        self._link.abandon()
        for zygote in self._zygotes.values():
            zygote.channel.close()
        for descriptor in (*self._pipes, self._wake_read, self._wake_write):
            os.close(descriptor)

    def _execute(self, python: str, module: str, channel: socket.socket, stdout: int, stderr: int) -> int:
        """Forks and runs `module.main(3)` in a fresh interpreter, with the channel as descriptor 3."""
        code = f"import sys; sys.path.insert(0, {_ROOT!r}); from {module} import main; main(3)"
        pid = os.fork()
        if pid == 0:
            try:
                signal.set_wakeup_fd(-1)
                for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
                    signal.signal(number, signal.SIG_DFL)
                high = os.dup(channel.fileno())
                birth.use_as_output(stdout, stderr)
                os.dup2(high, 3)
                os.closerange(4, 65536)
                os.execv(python, [python, "-I", "-S", "-c", code])
            except BaseException as error:
                os.write(2, f"[svc] cannot run {python}: {error}\n".encode())
            finally:
                os._exit(127)
        return pid

    def _ask(self, zygote: Zygote, record: WorkerRecord) -> None:
        record.zygote = zygote.key
        record.pipes, stdout, stderr = self._new_pipes(record.id)
        record.start["importMs"], zygote.unclaimed_import_ms = zygote.unclaimed_import_ms, 0.0
        zygote.asked[record.id] = record
        try:
            send_message(zygote.channel, record.start, (stdout, stderr))
        except OSError:
            pass  # its end is noticed by the reaper, which deals with what was asked
        os.close(stdout)
        os.close(stderr)

    def _spawn(self, record: WorkerRecord, reason: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        record.pipes, stdout, stderr = self._new_pipes(record.id)
        python = record.start.get("python") or sys.executable
        record.pid = self._execute(python, "svc._runtime.spawned", theirs, stdout, stderr)
        record.reason = reason
        self._children[record.pid] = record
        send_message(ours, record.start)
        for descriptor in (stdout, stderr):
            os.close(descriptor)
        ours.close()
        theirs.close()
        self._started(record, "spawn")

    def _started(self, record: WorkerRecord, how: str) -> None:
        record.how = how
        head = {"worker": record.id, "pid": record.pid, "how": how, "limits": record.group.kind}
        if record.reason:
            head["reason"] = record.reason
        self._link.send(encode(protocol.STARTED, 0, head))
        if record.stopping:
            kernel.kill_quietly(record.pid, signal.SIGTERM)

    def _read_zygote(self, zygote: Zygote) -> None:
        message, _ = receive_message(zygote.channel)
        if message is None:
            self._poll.unregister(zygote.channel)
            del self._channels[zygote.channel.fileno()]
            return
        if "forked" in message:
            record = zygote.asked.pop(message["forked"], None)
            if record is not None:
                record.pid = message["pid"]
                self._started(record, "fork")
        elif "exited" in message:
            record = self._workers.get(message["exited"])
            if record is not None:
                self._exited(record, message["status"])
        elif "ready" in message:
            zygote.ready = True
            zygote.unclaimed_import_ms = message["ready"]
            for record in zygote.waiting:
                self._ask(zygote, record)
            zygote.waiting = []
        elif "unforkable" in message:
            self._unforkable[zygote.key] = message["unforkable"]
            self._drop_zygote(zygote)
            for record in zygote.waiting:
                self._spawn(record, message["unforkable"])
            zygote.waiting = []
        elif "failed" in message:
            self._drop_zygote(zygote)
            for record in zygote.waiting:
                self._fail_boot(record, message["failed"])
            zygote.waiting = []

    def _drop_zygote(self, zygote: Zygote) -> None:
        """New workers of its key begin anew."""
        if self._zygotes.get(zygote.key) is zygote:
            del self._zygotes[zygote.key]

    def _fail_boot(self, record: WorkerRecord, fields: dict) -> None:
        self._link.send(boot_failed({"worker": record.id, **fields}))
        self._forget(record, {"code": 1, "signal": None, "reason": "the handler could not be loaded"})

    # Stopping.

    def _stop(self, record: WorkerRecord, grace_ms: float) -> None:
        if not record.pid:
            zygote = self._zygotes.get(record.start.get("zygote") or "")
            if zygote is not None and record in zygote.waiting:
                zygote.waiting.remove(record)
                self._forget(record, {"code": None, "signal": None, "reason": "stopped before it began"})
                return
        else:
            kernel.kill_quietly(record.pid, signal.SIGTERM)
        record.stopping = True
        stop_at = monotonic() + grace_ms / 1000
        record.stop_at = stop_at if record.stop_at is None else min(record.stop_at, stop_at)

    def _kill(self, record: WorkerRecord) -> None:
        if record.pid:
            kernel.kill_descendants(record.pid)
            kernel.kill_quietly(record.pid, signal.SIGKILL)
        else:
            record.stop_at = monotonic() + 0.05  # the zygote is about to fork it

    def _retire(self, key: str) -> None:
        self._unforkable.pop(key, None)
        zygote = self._zygotes.get(key)
        if zygote is None:
            return
        self._drop_zygote(zygote)
        zygote.retired = True
        if not zygote.ready:
            kernel.kill_quietly(zygote.pid, signal.SIGKILL)
            return
        try:
            send_message(zygote.channel, {"retire": True})
        except OSError:
            pass

    def _shut_down(self, grace_ms: float) -> None:
        self._stop_at = monotonic() + grace_ms / 1000
        for record in list(self._workers.values()):
            self._stop(record, grace_ms)

    # Ends.

    def _reap(self) -> None:
        try:
            while os.read(self._wake_read, 512):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = self._children.pop(pid, None)
            code = os.waitstatus_to_exitcode(status)
            if isinstance(child, Zygote):
                self._zygote_ended(child, code)
            elif isinstance(child, WorkerRecord):
                self._exited(child, code)
            else:
                # A worker whose zygote died before it is ours to reap.
                for record in self._workers.values():
                    if record.pid == pid:
                        self._exited(record, code)
                        break

    def _zygote_ended(self, zygote: Zygote, code: int) -> None:
        while zygote.channel.fileno() in self._channels:  # its last words
            self._read_zygote(zygote)
        self._drop_zygote(zygote)
        for pipe in zygote.pipes:
            self._close_pipe(pipe)
        zygote.channel.close()
        how = f"exited with code {code}" if code >= 0 else f"was killed by {signal_name(-code)}"
        for record in (*zygote.waiting, *zygote.asked.values()):
            if record.id not in self._workers:
                continue
            if zygote.retired:
                self._forget(record, {"code": None, "signal": None, "reason": "its build was retired"})
            else:
                self._fail_boot(record, _plain_failure(f"the process that imported the handler {how}"))

    def _exited(self, record: WorkerRecord, status: int) -> None:
        head = {
            "code": status if status >= 0 else None,
            "signal": signal_name(-status) if status < 0 else None,
            "reason": exit_reason(record, status),
        }
        self._forget(record, head)
        self._kill_strays()

    def _forget(self, record: WorkerRecord, head: dict) -> None:
        """The end of a worker: last output, EXITED, and nothing of it stays."""
        if self._workers.pop(record.id, None) is None:
            return
        for pipe in record.pipes:
            self._close_pipe(pipe)
        self._link.send(encode(protocol.EXITED, 0, {"worker": record.id, **head}))
        if not record.group.remove():
            self._emptying.append(record.group)
            self._strays_at = self._strays_at or monotonic() + 0.01
        directory = record.start.get("tempDir")
        if directory:
            self._remove_directory(directory)

    def _remove_directory(self, directory: str) -> None:
        try:
            os.rmdir(directory)
        except FileNotFoundError:
            pass
        except OSError:
            pid = os.fork()
            if pid == 0:
                try:
                    import shutil

                    shutil.rmtree(directory, ignore_errors=True)
                finally:
                    os._exit(0)
            self._children[pid] = None

    def _kill_strays(self) -> None:
        """Children nobody knows are what dead workers left behind. Looks again until there are none."""
        workers = {record.pid for record in self._workers.values()}
        strays = [pid for pid in kernel.children_of(os.getpid()) if pid not in self._children and pid not in workers]
        for pid in strays:
            kernel.kill_quietly(pid, signal.SIGSTOP)
            kernel.kill_descendants(pid)
            kernel.kill_quietly(pid, signal.SIGKILL)
        self._emptying = [group for group in self._emptying if not group.remove()]
        self._strays_at = monotonic() + 0.01 if strays or self._emptying else None

    # Output.

    def _read_pipe(self, pipe: OutputPipe) -> None:
        lines = pipe.read()
        if lines is None:
            self._close_pipe(pipe)
        elif lines:
            self._send_lines(pipe, lines)

    def _send_lines(self, pipe: OutputPipe, lines: bytes) -> None:
        self._link.send_log(encode(protocol.LOG, 0, {"stream": pipe.stream, "worker": pipe.worker}, lines))

    def _close_pipe(self, pipe: OutputPipe) -> None:
        if self._pipes.pop(pipe.descriptor, None) is None:
            return
        for _ in range(32):  # what is left in the pipe, and no more than a pipe holds
            lines = pipe.read()
            if not lines:
                break
            self._send_lines(pipe, lines)
        rest = pipe.rest()
        if rest:
            self._send_lines(pipe, rest)
        self._poll.unregister(pipe.descriptor)
        os.close(pipe.descriptor)


def _plain_failure(message: str) -> dict:
    return {"error_type": "BootFailure", "error_message": message, "error_traceback": ""}


def main() -> None:
    settings = json.loads(sys.stdin.readline())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        os.setsid()
    except PermissionError:
        pass  # a session leader already
    for name in list(os.environ):
        if name not in _INHERITED and not name.startswith(_INHERITED_PREFIXES):
            del os.environ[name]
    kernel.become_subreaper()
    # What every worker needs: imported once, shared by all forks.
    import svc
    import svc._runtime.blocking  # noqa: F401

    assert svc
    gc.freeze()
    Launcher(settings).run()
