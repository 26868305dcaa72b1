"""A zygote: one endpoint of one build, imported once; it forks workers on request and reports their ends.

    launcher ── fork: limits, channel, output pipes, group ──▶ zygote ── fork ──▶ child
             ◀── ready | failed | unforkable | unforked | exited ──               │
             ◀── forked: the kernel adds which process says so ───────────────────┘
    launcher ── START, on the child's own channel, then or later ────────────────▶ child: a worker

A child without a START is a spare: it did what does not depend on the worker (session, limits, fresh random state) and
waits. The zygote runs no thread and holds nothing but the imported modules. It ends when the launcher closes the
channel and, after "retire", when its last child has ended. One that is `bare` imports nothing: each worker does.

With namespaces it is process 1 of its own: what a dead worker leaves behind becomes its child, and all end with it.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
from time import monotonic

from svc._runtime.confine import cgroups, kernel
from svc._runtime.confine.isolation import Isolation
from svc._runtime.limits import MESSAGE_FDS_MAX, START_MESSAGE_MAX_BYTES
from svc._runtime.link.connection import TLS
from svc._runtime.loader import load_handler
from svc._runtime.process import log, new_process
from svc._runtime.process.remains import Remains
from svc._values.failure import BootFailure, describe


def send_message(channel: socket.socket, message: dict, descriptors: tuple = ()) -> None:
    data = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
    if len(data) > START_MESSAGE_MAX_BYTES:
        _send_as_file(channel, data, descriptors)
    elif descriptors:
        socket.send_fds(channel, [data], list(descriptors))
    else:
        channel.send(data)


_IN_FILE = b"file"


def _send_as_file(channel: socket.socket, data: bytes, descriptors: tuple) -> None:
    """The kernel bounds one message: the text is in the last of the descriptors."""
    with open(os.memfd_create("start"), "wb", buffering=0) as file:
        file.write(data)
        socket.send_fds(channel, [_IN_FILE], [*descriptors, file.fileno()])


def _read_file(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        file.seek(0)
        return file.read()


def receive_message(channel: socket.socket) -> tuple[dict | None, list[int]]:
    """The next message and its descriptors; (None, []) when the other side is gone."""
    try:
        data, descriptors, _, _ = socket.recv_fds(channel, START_MESSAGE_MAX_BYTES, MESSAGE_FDS_MAX)
    except ConnectionError:
        return None, []
    if data == _IN_FILE:
        data = _read_file(descriptors.pop())
    return (json.loads(data), descriptors) if data else (None, [])


def serve(channel: socket.socket, start: dict, group: list[int]) -> None:
    """The life of a zygote; `group` are the open files of its cgroup. Never returns."""
    before = _open_descriptors()
    gc.disable()
    try:
        cgroups.join(group, start["limits"], 0 if start.get("gpu") else start.get("memoryBytes") or 0)
        Isolation.of(start).confine_endpoint(start)
    except OSError as error:
        send_message(channel, {"failed": _plain(f"its isolation could not be set up: {error}")})
        os._exit(1)
    kernel.die_with_parent()  # after the isolation, which may clear it
    try:
        endpoint, import_ms = (None, 0.0) if start.get("bare") else _load(start)
        reason = "" if endpoint is None else _why_not_forkable(before)
        if endpoint is not None and endpoint.shares():
            import_ms += _share(endpoint, before, reason)
    except BootFailure as failure:
        _flush_output()
        send_message(channel, {"failed": _bounded(failure.fields)})
        os._exit(1)
    except BaseException as error:
        _flush_output()
        send_message(channel, {"failed": _bounded(describe(error))})
        os._exit(1)
    _flush_output()
    if reason:
        send_message(channel, {"unforkable": f"{reason} after import"})
        os._exit(0)
    gc.collect()
    gc.freeze()
    send_message(channel, {"ready": import_ms})
    _Forker(channel, endpoint, start).run()


def _load(start: dict):
    began = monotonic()
    new_process.apply_environment(start.get("env") or {})
    endpoint = _load_handler(start)
    from svc._runtime.process.worker_life import way_to_run

    way_to_run(endpoint, int(start.get("concurrency") or 1))
    endpoint.prepare()
    if endpoint.calls_others():
        import svc._calling.dispatch  # noqa: F401 (its forks need not import it with their first call)
    if start["socket"].startswith(TLS):
        import svc._runtime.link.ahead  # noqa: F401
        from svc._runtime.link.tls import context_for

        context_for(start["socket"].partition("#")[2])
    return endpoint, (monotonic() - began) * 1000


def _share(endpoint, before: dict[str, str], reason: str) -> float:
    """What workers are to find there at once; how long it took. Raises BootFailure where a fork of it would be broken."""
    began = monotonic()
    when = "after import"
    if not reason:
        endpoint.share()
        reason = _why_not_forkable(before)
        when = "after it"
    if reason:
        what = f"{', '.join(endpoint.shares())} cannot be shared by all workers: {reason} {when}"
        where = "do that in a method marked @svc.enter, which runs in each worker"
        raise BootFailure(_plain(f"{what}. A fork would be a broken copy; {where}"))
    return (monotonic() - began) * 1000


def _load_handler(start: dict):
    new_process.fresh_main_module()
    paths = list(start.get("paths") or [])
    if paths and os.path.isdir(paths[0]):
        os.chdir(paths[0])
    return load_handler(start["handler"], paths, start["endpoint"]["name"])


def _why_not_forkable(before: dict[str, str]) -> str:
    """Why a fork of this process would be a broken copy; "" when it is fine."""
    import _thread

    if _thread._count() > 0:
        return "a thread is alive"
    torch = sys.modules.get("torch")
    if torch is not None and getattr(getattr(torch, "cuda", None), "is_initialized", bool)():
        return "CUDA is initialised"
    for number, target in _open_descriptors().items():
        if before.get(number) == target:
            continue
        if target.startswith("socket:"):
            return "a socket is open"
        if target.startswith("/dev/nvidia"):
            return "CUDA is initialised"
        if target == "anon_inode:[eventpoll]":
            return "an event loop is open"
    return ""


def _open_descriptors() -> dict[str, str]:
    """Number to what it is, from /proc."""
    found = {}
    try:
        numbers = os.listdir("/proc/self/fd")
    except OSError:
        return found
    for number in numbers:
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            pass
    return found


def _plain(message: str) -> dict:
    return {"error_type": "BootFailure", "error_message": message, "error_traceback": ""}


def _bounded(fields: dict) -> dict:
    return {name: str(value)[-8000:] for name, value in fields.items()}


def _flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass


class _Forker:
    def __init__(self, channel: socket.socket, endpoint, loaded_for: dict) -> None:
        self._channel = channel
        self._loaded_for = loaded_for
        """The START that it was made for."""
        self._endpoint = endpoint
        self._children: dict[int, int] = {}
        """Pid to the number that the launcher gave it."""
        self._retiring = False
        self._remains = Remains(self._children.__contains__)
        new_process.keep_standard_numbers()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)

    def run(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while not (self._retiring and not self._children):
            for descriptor, _ in poll.poll(self._remains.wait_ms()):
                if descriptor == self._wake_read:
                    self._reap()
                else:
                    self._take_message()
            self._remains.on_time()
        os._exit(0)

    def _take_message(self) -> None:
        message, descriptors = receive_message(self._channel)
        if message is None:
            # The launcher is gone: nobody could stop these workers any more.
            for pid in self._children:
                kernel.kill_descendants(pid)
                kernel.kill_quietly(pid, signal.SIGKILL)
            os._exit(0)
        if "retire" in message:
            self._retiring = True
        else:
            self._fork(message, *descriptors)

    def _fork(self, request: dict, channel: int, stdout: int, stderr: int, *group: int) -> None:
        number = request["fork"]
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            send_message(self._channel, {"unforked": number, "why": error.strerror})
        else:
            if pid == 0:
                self._become_worker(parent, request, channel, stdout, stderr, list(group))
            self._children[pid] = number
        for descriptor in (channel, stdout, stderr, *group):
            os.close(descriptor)

    def _become_worker(
        self, parent: int, request: dict, descriptor: int, stdout: int, stderr: int, group: list[int]
    ) -> None:
        try:
            signal.set_wakeup_fd(-1)
            send_message(self._channel, {"forked": request["fork"]})
            self._channel.close()
            os.close(self._wake_read)
            os.close(self._wake_write)
            new_process.become_worker(request, stdout, stderr, group)
            if os.getppid() != parent:
                os._exit(0)  # it ended before this process could tie itself to it
            channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=descriptor)
            confined = self._confine_ahead()
            from svc._runtime.process.worker_life import run_worker

            ahead = self._dial_ahead(request) if confined else None

            start, _ = receive_message(channel)
            channel.close()
            if start is None:
                os._exit(0)  # a spare that nobody needs any more
            endpoint = self._endpoint
            # A disk takes its time for a new directory; without code to run before the first job it need not wait.
            later = confined and endpoint is not None and not any(target.is_class for target in endpoint.targets)
            new_process.settle(start, confined, later)
            gc.enable()
            if endpoint is None:
                run_worker(start, lambda: _load_handler(start), 0.0, None, ahead)
            meanwhile = (lambda: new_process.make_directory(start)) if later else None
            run_worker(start, lambda: endpoint, start.get("importMs", 0.0), meanwhile, ahead)
        except BaseException as error:
            log.tell(f"worker failed at birth: {error!r}")
        finally:
            os._exit(70)

    def _confine_ahead(self) -> bool:
        """Under "strict" a worker's bounds name its own temporary directory, which only its START tells."""
        if self._loaded_for.get("isolation") == "strict":
            return False
        Isolation.of(self._loaded_for).confine_worker(self._loaded_for)
        return True

    def _dial_ahead(self, request: dict):
        """Of a spare on a host; None where START brought no ticket."""
        if not request.get("ahead"):
            return None
        from svc._runtime.link.ahead import LinkAhead

        return LinkAhead(self._loaded_for["socket"], request["ahead"])

    def _reap(self) -> None:
        for pid, code in kernel.ended_children(self._wake_read):
            number = self._children.pop(pid, None)
            if number is not None:
                send_message(self._channel, {"exited": number, "status": code})
                self._remains.sweep()


def main(descriptor: int) -> None:
    """Entry of a zygote that runs another interpreter than the launcher: the first message is its START."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=descriptor)
    start, group = receive_message(channel)
    if start is not None:
        serve(channel, start, group)
