"""Frames that no platform of ours would send: a worker ends or goes on, a launcher goes on, and none hangs. SVC_FUZZ_FRAMES sets how many, SVC_FUZZ_SEED which."""

from __future__ import annotations

import json
import os
import random
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import LauncherTest, Link, encode, protocol, wait_until

from svc._runtime.limits import FRAME_MAX_BYTES
from svc._runtime.link.protocol import MORE

FRAMES = int(os.environ.get("SVC_FUZZ_FRAMES", "1200"))
SEED = int(os.environ.get("SVC_FUZZ_SEED", "1"))
ROUND = 12
ANSWER_S = 30.0

SOURCES = {
    "blocking": ("def run(n=1):\n    print(n)\n    yield n\n", {"kind": "generator"}),
    "threads": ("def run(n=1):\n    return n\n", {"concurrency": 4}),
    "event loop": ("async def run(n=1):\n    return n\n", {"kind": "async-function", "concurrency": 4}),
    "routes": (
        "from svc import Endpoint\napi = Endpoint(name='hello')\n\n"
        "@api.post('/')\nasync def root(n: int = 1):\n    return n\n\n"
        "@api.get('/stream')\ndef stream():\n    for n in range(100):\n        yield 'x' * 1000\n\n"
        "@api.post('/bytes')\ndef take(body: bytes):\n    return len(body)\n",
        {"routes": {"POST /": "root", "GET /stream": "stream", "POST /bytes": "take"}, "concurrency": 4},
    ),
}  # fmt: skip
VALUES = [
    None, True, 0, -1, 1, 1.5, 1e300, 2**70, "", "x", "POST", "GET", "WEBSOCKET", "/", "/stream", "/bytes", "\x00", "\ud800", [],
    [[]], [["a", "b"]], [["content-type", "application/json"]], [["a", 1]], [None], {}, {"a": 1}, "recalled", "timeout", 65536,
]  # fmt: skip
HEADS = {
    protocol.JOB: {"job": "j", "fence": 1, "timeoutMs": 60000, "method": ""},
    protocol.REQUEST: {"id": "r", "method": "POST", "path": "/", "query": "", "headers": [], "timeoutMs": 60000},
    protocol.CANCEL: {"reason": "cancelled"},
    protocol.WINDOW: {"bytes": 100},
}
WHOLE = [b"null", b"5", b"[]", b"{", b"\x00\xff", b"[" * 60_000, b'{"a":' * 9_000, b'{"job":1e999}', b"nul"]
BODIES = [b"", b"{}", b'{"n":2}', b'{"input":{"n":2}}', b"null", b"not json", b"x" * 5000, b"[" * 5000]
TYPES = [protocol.JOB, protocol.REQUEST, protocol.BODY, protocol.CANCEL, protocol.WINDOW]
OTHERS = [*TYPES, protocol.ACK, protocol.PING, protocol.WELCOME, protocol.RESULT, protocol.START, 0, 77, 255]


def frame_of(some: random.Random) -> bytes:
    type = some.choice(TYPES if some.random() < 0.8 else OTHERS)
    head = dict(HEADS.get(type, {}))
    for _ in range(some.choice((0, 0, 0, 1, 1, 2))):
        key = some.choice([*head, "extra"])
        if some.random() < 0.3:
            head.pop(key, None)
        else:
            head[key] = some.choice(VALUES)
    text = json.dumps(head).encode() if some.random() < 0.97 else some.choice(WHOLE)
    channel = some.choice((0, 1, 1, 2, 3, 2**31, 2**32 - 1))
    frame = encode(type, channel, text, some.choice(BODIES), some.choice((0, 0, 0, MORE, 255)))
    if some.random() < 0.005:
        at = some.randrange(12)
        frame = frame[:at] + bytes([some.randrange(256)]) + frame[at + 1 :]
        # Whoever is promised more bytes waits for them: they come.
        lack = int.from_bytes(frame[:4], "big") + 4 - len(frame)
        if 0 < lack <= FRAME_MAX_BYTES:
            frame += bytes(lack)
    return frame


class FramesOfThePlatform(LauncherTest):
    def outcome(self, link: Link, seed: int) -> str:
        """What became of the worker: it answers, or it ended."""
        try:
            link.send(protocol.PING)
            link.expect(protocol.PONG, timeout=ANSWER_S)
            return "answers"
        except OSError:
            pass
        except AssertionError as error:
            if "closed while" not in str(error):
                raise AssertionError(f"it hangs: SVC_FUZZ_SEED={seed}") from error
        return "closed"

    def throw_at(self, name: str) -> dict[str, int]:
        source, settings = SOURCES[name]
        seen = {"answers": 0, "closed": 0}
        link = None
        for number in range(FRAMES // len(SOURCES) // ROUND):
            seed = SEED + number
            some = random.Random(f"{name} {seed}")
            if link is None:
                link = self.ready(source, **settings)
            try:
                link.sock.sendall(b"".join(frame_of(some) for _ in range(ROUND)))
            except OSError:
                pass  # It has hung up in the middle.
            outcome = self.outcome(link, seed)
            seen[outcome] += 1
            if outcome == "closed":
                link.close()
                self.launcher.send(protocol.STOP, 0, {"worker": link.worker, "graceMs": 0})
                self.launcher.expect(protocol.EXITED, worker=link.worker, timeout=ANSWER_S)
                link = None
        return seen


def test_of(name: str):
    def test(self: FramesOfThePlatform) -> None:
        seen = self.throw_at(name)
        self.assertTrue(seen["answers"] and seen["closed"], f"not all was tried: {seen}")

    return test


for name in SOURCES:
    setattr(FramesOfThePlatform, f"test_a_worker_ends_or_goes_on_whatever_it_is_sent_{name.replace(' ', '_')}", test_of(name))

class FramesToTheLauncher(LauncherTest):
    def start_of(self, some: random.Random, worker: str) -> tuple[dict, bytes]:
        """A START, mostly wrong. Fields that name folders and files never name others: what a launcher is told to remove it removes."""
        head = {
            "worker": worker, "token": "t", "zygote": f"ep-fuzz:{some.randrange(3)}", "python": sys.executable, "boot": "SVCBOOT",
            "handler": self.entry, "paths": [self.source], "env": {}, "concurrency": 1, "socket": self.platform.path, "reconnectMs": 60_000,
            "endpoint": {"id": "ep", "name": "fuzz", "app": "a", "environment": "e", "kind": "queue"}, "platformUrl": "http://127.0.0.1:1",
            "tempDir": os.path.join(self.directory, "tmp", worker), "share": {"vcpus": 1, "memoryGb": 1, "gpus": []},
        }  # fmt: skip
        for _ in range(some.choice((1, 1, 2, 3))):
            key = some.choice([*head, "limits", "isolation", "volumes", "extra"])
            if key == "worker":
                continue
            if some.random() < 0.4:
                head.pop(key, None)
            else:
                head[key] = some.choice([value for value in VALUES if not isinstance(value, str) or key in ("boot", "token", "zygote")])
        return head, some.choice((b"", b"", b"", b'{"A":"b"}', b"null", b"[]", b"nul", b"\xff"))

    def throw(self, seed: int) -> None:
        some = random.Random(f"launcher {seed}")
        workers = [f"f-{seed}-{number}" for number in range(4)]
        for worker in workers:
            head, env = self.start_of(some, worker)
            self.launcher.send(protocol.START, 0, head, env)
            for type in (protocol.STOP, protocol.RETIRE, protocol.START, 0, 77, 255):
                if some.random() < 0.3:
                    wrong = {"worker": some.choice([*workers, *VALUES]), "graceMs": some.choice(VALUES), "zygote": some.choice(VALUES)}
                    text = json.dumps(wrong).encode() if some.random() < 0.8 else some.choice(WHOLE)
                    if type != protocol.START or some.random() < 0.5:
                        text = some.choice(WHOLE) if type == protocol.START else text
                        self.launcher.sock.sendall(encode(type, some.choice((0, 5)), text, some.choice(BODIES)))
        for worker in workers:
            self.launcher.send(protocol.STOP, 0, {"worker": worker, "graceMs": 0})
        self.launcher.send(protocol.PING)
        self.launcher.expect(protocol.PONG, timeout=ANSWER_S)

    def test_it_goes_on_and_keeps_no_worker_that_never_was(self) -> None:
        self.write("worker_file.py", "def run():\n    return 1\n")
        self.entry = self.handler("fuzz", "queue", [{"module": "worker_file", "name": "run", "kind": "function"}])
        ended = 0
        for number in range(max(1, FRAMES // 60)):
            seed = SEED + number
            self.throw(seed)
            ended += len(self.launcher.seen(protocol.EXITED))
            self.assertIsNone(self.process.poll(), f"the launcher ended: SVC_FUZZ_SEED={seed}")
        self.assertGreater(ended, 0, "some ended")
        self.assertEqual(self.ready("def run(n=1):\n    return n\n").run(1, {"n": 3}).json, 3)
        wait_until(lambda: not self.ghosts(), ANSWER_S, "all that were started are gone")

    def ghosts(self) -> list[str]:
        """What a launcher that connects again names as alive."""
        self.launcher.close()
        self.launcher = self.platform.link("launcher")
        known = self.launcher.expect(protocol.WORKERS).head["workers"]
        return [one["worker"] for one in known if one["worker"].startswith("f-")]



if __name__ == "__main__":
    unittest.main()
