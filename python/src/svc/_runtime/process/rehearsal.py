"""A worker's first moments, played before anything is forked.

Python writes to code that it runs for the first times: it counts calls, then specialises. In a fork each such write copies a
page. What was run often enough before is not written to again, so workers take less memory and start sooner.
"""

from __future__ import annotations

import os
import socket
import sys

from svc._runtime.link import protocol
from svc._runtime.link.connection import Connection
from svc._runtime.link.protocol import encode
from svc._runtime.loader import load_endpoint
from svc._runtime.work.blocking import BlockingWorker

TIMES = 12
"""More than the calls after which Python specialises a function."""


def example(n: int = 1):
    return {"n": n}


def rehearse() -> None:
    """Leaves nothing behind. Where it cannot be done, only the gain is lost."""
    streams = sys.stdout, sys.stderr
    function = {"module": __name__, "name": "example", "kind": "function"}
    endpoint = load_endpoint(name="rehearsal", kind="queue", functions=[function], routes={})
    address = f"\0svc-rehearsal-{os.getpid()}"
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(address)
            server.listen(1)
            for _ in range(TIMES):
                _play(endpoint, server, address)
    except OSError:
        pass
    finally:
        sys.stdout, sys.stderr = streams


def _play(endpoint, server: socket.socket, address: str) -> None:
    """One job, from the first greeting to its result; this thread is the platform as well."""
    connection = Connection(address, "token", "worker", 1000)
    start = {"worker": "worker", "endpoint": {"id": "", "name": "rehearsal", "app": "", "environment": ""}}
    worker = BlockingWorker(start, endpoint.callables(), endpoint.requests(), connection)
    worker.capture_output()
    open_descriptors = [worker._wanted_read, worker._wanted_write]
    job = {"job": "1", "fence": 1, "timeoutMs": 1000}

    def answer() -> None:
        platform, _ = server.accept()
        platform.sendall(
            encode(protocol.WELCOME, 0, {"protocol": protocol.PROTOCOL})
            + encode(protocol.JOB, 1, job, b'{"n":1}')
            + encode(protocol.ACK, 1)
        )
        open_descriptors.append(platform.detach())

    try:
        connection.open(encode(protocol.CREDIT, 0, {"slots": 1, "bootMs": 0.5, "importMs": 0.5}), answer)
        worker._reading.acquire()
        for frame in connection.early_frames or connection.read():
            worker.dispatch(frame)
            while worker.pending:
                worker._run(worker.pending.popleft())
                worker._flush()
    finally:
        connection.close()
        for descriptor in open_descriptors:
            os.close(descriptor)
