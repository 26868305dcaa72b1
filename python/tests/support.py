"""A platform for tests: a listening Unix socket that speaks frames, and a launcher as a real process."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "python" / "src"
sys.path.insert(0, str(SOURCE))

from svc._runtime.link import protocol  # noqa: E402
from svc._runtime.link.protocol import FrameReader, encode  # noqa: E402

# A machine may have much else to do.
WAIT_S = 60.0
NAMES = {
    value: name
    for name, value in vars(protocol).items()
    if name.isupper() and isinstance(value, int) and name not in ("PROTOCOL", "MORE")
}


class Frame:
    def __init__(self, raw: tuple) -> None:
        self.type, self.flags, self.channel, head, self.body = raw
        self.head = json.loads(head) if head else {}

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"<{NAMES.get(self.type, self.type)} {self.channel} {self.head} {self.body[:200]!r}>"


class Link:
    """One connection, from the platform's side."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.frames: queue.Queue[Frame | None] = queue.Queue()
        self._set_aside: list[Frame] = []
        self._reader = FrameReader()
        self.hello = self._read_one()
        self._lock = threading.Lock()
        self._held: bytearray | None = None
        self.bytes_read = 0
        self.reading = threading.Event()
        """Cleared: nothing more is read, beyond the read that waits."""
        self.reading.set()
        self.told_of_end = lambda: ""
        """What the launcher tells of this worker's end, for the message of a test that fails."""

    def _read_one(self) -> Frame | None:
        while True:
            data = self.sock.recv(65536)
            if not data:
                return None
            frames = self._reader.push(data)
            if frames:
                for frame in frames[1:]:
                    self.frames.put(Frame(frame))
                return Frame(frames[0])

    def pump(self) -> None:
        while True:
            try:
                data = self.sock.recv(1 << 20)
            except OSError:
                data = b""
            if not data:
                self.frames.put(None)
                return
            for frame in self._reader.push(data):
                self.frames.put(Frame(frame))
            self.bytes_read += len(data)
            self.reading.wait()

    def send(self, type: int, channel: int = 0, head: dict | None = None, body: bytes = b"", flags: int = 0) -> None:
        frame = encode(type, channel, head, body, flags)
        with self._lock:
            if self._held is None:
                self.sock.sendall(frame)
            else:
                self._held += frame

    @contextlib.contextmanager
    def together(self):
        """What is sent meanwhile leaves as one at the end: the other side reads all of it before it does anything else."""
        self._held = bytearray()
        yield
        frames, self._held = self._held, None
        self.sock.sendall(frames)

    def expect(self, type: int, channel: int | None = None, timeout: float = WAIT_S, **head) -> Frame:
        """The next frame of this type; others are set aside for later calls."""

        def fits(frame: Frame) -> bool:
            return (
                frame.type == type
                and (channel is None or frame.channel == channel)
                and all(frame.head.get(key) == value for key, value in head.items())
            )

        for frame in self._set_aside:
            if fits(frame):
                self._set_aside.remove(frame)
                return frame
        deadline = time.monotonic() + timeout
        while True:
            try:
                frame = self.frames.get(timeout=max(0.001, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no {NAMES[type]} {head} came; aside: {self._set_aside}") from None
            if frame is None:
                told = self.told_of_end()
                raise AssertionError(f"closed while waiting for {NAMES[type]}; {told}aside: {self._set_aside}")
            if fits(frame):
                return frame
            self._set_aside.append(frame)

    def put_back(self, frame: Frame) -> None:
        """For a later call."""
        self._set_aside.append(frame)

    def seen(self, type: int) -> list[Frame]:
        """Frames of this type that came until now, and go."""
        while not self.frames.empty():
            frame = self.frames.get()
            if frame is not None:
                self._set_aside.append(frame)
        found = [frame for frame in self._set_aside if frame.type == type]
        self._set_aside = [frame for frame in self._set_aside if frame.type != type]
        return found

    def expect_end(self, timeout: float = WAIT_S) -> None:
        deadline = time.monotonic() + timeout
        while (frame := self.frames.get(timeout=max(0.001, deadline - time.monotonic()))) is not None:
            self._set_aside.append(frame)

    def job(self, channel: int, input: object = None, **head) -> None:
        self.send(
            protocol.JOB,
            channel,
            {"job": f"job-{channel}", "fence": 100 + channel, "timeoutMs": 60000, **head},
            json.dumps({} if input is None else input).encode(),
        )

    def run(self, channel: int, input: object = None, **head) -> Frame:
        """Sends a job, acknowledges and returns its result."""
        self.job(channel, input, **head)
        return self.result(channel)

    def result(self, channel: int) -> Frame:
        frame = self.expect(protocol.RESULT, channel)
        self.send(protocol.ACK, channel)
        return frame

    def request(
        self,
        channel: int,
        method: str,
        path: str,
        body: bytes | dict = b"",
        query: str = "",
        headers=None,
        flags: int = 0,
    ) -> None:
        if isinstance(body, dict):
            body = json.dumps(body).encode()
            headers = headers or [["content-type", "application/json"]]
        head = {
            "id": f"req-{channel}",
            "method": method,
            "path": path,
            "query": query,
            "headers": headers or [],
            "timeoutMs": 60000,
        }
        self.send(protocol.REQUEST, channel, head, body, flags)

    def fetch(self, channel: int, *arguments, **named) -> Frame:
        self.request(channel, *arguments, **named)
        return self.expect(protocol.RESULT, channel)

    def close(self) -> None:
        self.reading.set()
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.sock.close()


class Platform:
    """Listens; gives each connection that says HELLO a WELCOME and puts it where its worker's id is waited for."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, "p.sock")
        self.links: dict[str, queue.Queue[Link]] = {}
        self._lock = threading.Lock()
        self._all: list[Link] = []
        self.refuse: set[str] = set()
        self._server: socket.socket | None = None
        self.listen()

    def listen(self) -> None:
        if os.path.exists(self.path):
            os.unlink(self.path)
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self.path)
        self._server.listen(256)
        threading.Thread(target=self._accept, args=(self._server,), daemon=True).start()

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                sock, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        link = Link(sock)
        if link.hello is None:
            sock.close()
            return
        worker = link.hello.head["worker"]
        if worker in self.refuse:
            link.send(protocol.REFUSED, 0, {"reason": "unknown token"})
            sock.close()
            return
        link.send(protocol.WELCOME, 0, {"protocol": 1})
        self._all.append(link)
        self._queue(worker).put(link)
        link.pump()

    def _queue(self, worker: str) -> queue.Queue:
        with self._lock:
            return self.links.setdefault(worker, queue.Queue())

    def link(self, worker: str, timeout: float = WAIT_S) -> Link:
        """The next connection of this worker."""
        try:
            return self._queue(worker).get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"{worker} did not connect") from None

    def vanish(self) -> None:
        """As a killed platform: all connections and the socket are gone."""
        self._stop_listening()
        for link in self._all:
            link.close()
        self._all = []

    def _stop_listening(self) -> None:
        try:
            self._server.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._server.close()

    def close(self) -> None:
        self.vanish()


class LauncherTest(unittest.TestCase):
    """A platform, a launcher and a project in a temporary directory."""

    reconnect_ms = 60_000
    settings: dict = {}
    """Further ones of the launcher."""
    program = [str(SOURCE / "svc" / "_runtime" / "launcher.py")]
    """What Python is told to run as the launcher."""

    def setUp(self) -> None:
        self.directory = tempfile.mkdtemp(prefix="svc-test-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.platform = Platform(self.directory)
        self.addCleanup(self.platform.close)
        self.source = os.path.join(self.directory, "src")
        os.mkdir(self.source)
        self.counter = 0
        self.start_launcher()

    def start_launcher(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", *self.program],
            stdin=subprocess.PIPE,
        )
        self.addCleanup(self._end_launcher)
        settings = {"socket": self.platform.path, "token": "t", "id": "launcher", "reconnectMs": self.reconnect_ms}
        settings.update(self.settings)
        self.process.stdin.write(json.dumps(settings).encode() + b"\n")
        self.process.stdin.close()
        self.launcher = self.platform.link("launcher")

    def _end_launcher(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def write(self, name: str, text: str) -> None:
        Path(self.source, name).write_text(textwrap.dedent(text))

    def handler(self, name: str, kind: str = "queue", functions: list | None = None, routes: dict | None = None) -> str:
        path = os.path.join(self.directory, f"{name}.py")
        Path(path).write_text(
            f'"""Entry point of endpoint "{name}", generated by svc build."""\n'
            "from svc._runtime.loader import load_endpoint\n\n"
            "endpoint = load_endpoint(\n"
            f"    name={name!r},\n    kind={kind!r},\n    functions={functions or []!r},\n    routes={routes or {}!r},\n)\n"
        )
        return path

    def start(self, source: str | None = None, function: str = "run", *, kind: str = "function", endpoint: str = "hello",
              routes: dict | None = None, module: str = "worker_file", environment: str = "production", **changes) -> str:  # fmt: skip
        """Writes a worker file, asks for a worker of it and returns the worker's id."""
        if source is not None:
            self.write(f"{module}.py", source)
        self.counter += 1
        worker = f"w-{self.counter}"
        if routes is None:
            handler = self.handler(endpoint, "queue", [{"module": module, "name": function, "kind": kind}])
        else:
            found = {key: {"module": module, "name": name} for key, name in routes.items()}
            handler = self.handler(endpoint, "load-balanced", [], found)
        head = {
            "worker": worker,
            "token": f"token-{worker}",
            "zygote": f"ep-{endpoint}:b-1",
            "python": sys.executable,
            "boot": "SVCBOOT",
            "handler": handler,
            "paths": [self.source],
            "endpoint": {
                "id": "ep",
                "name": endpoint,
                "app": "shop",
                "environment": environment,
                "kind": "queue" if routes is None else "load-balanced",
            },
            "env": {},
            "concurrency": 1,
            "socket": self.platform.path,
            "platformUrl": "http://127.0.0.1:1",
            "tempDir": os.path.join(self.directory, "tmp", worker),
            "reconnectMs": self.reconnect_ms,
            **changes,
        }
        env = head.pop("body_env", None)
        self.launcher.send(protocol.START, 0, head, b"" if env is None else json.dumps(env).encode())
        return worker

    def ready(self, *arguments, **named) -> Link:
        """A worker that has sent CREDIT."""
        worker = self.start(*arguments, **named)
        link = self.platform.link(worker)
        link.worker = worker
        link.told_of_end = lambda: self.told_of_end(worker)
        link.credit = link.expect(protocol.CREDIT)
        return link

    def told_of_end(self, worker: str) -> str:
        try:
            end = self.launcher.expect(protocol.EXITED, timeout=5, worker=worker)
            self.launcher.put_back(end)
            return f"its end: {end.head}; "
        except AssertionError:
            return f"no end of it was told, the launcher's exit code: {self.process.poll()}; "


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition, timeout: float = WAIT_S, what: str = "") -> None:
    """For states of the operating system that announce themselves by no event."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"it did not come true: {what or condition}")
        time.sleep(0.005)
