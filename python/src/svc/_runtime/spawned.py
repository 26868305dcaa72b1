"""Entry of a worker in a fresh interpreter: for boot type OFF and for modules that a fork would break."""

from __future__ import annotations

import socket


def main(descriptor: int) -> None:
    """Reads its START from the launcher's channel and runs. Its outputs are in place already."""
    from svc._runtime.zygote import receive_message

    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=descriptor)
    start, _ = receive_message(channel)
    channel.close()
    if start is None:
        return
    import os

    from svc._runtime import birth, kernel
    from svc._runtime.isolation import Isolation
    from svc._runtime.loader import load_handler
    from svc._runtime.worker import run_worker

    birth.become_worker(start["group"], 1, 2)
    if os.getppid() != start["parent"]:
        return  # it ended before this process could tie itself to it
    Isolation.of(start).confine_endpoint(start)
    kernel.die_with_parent()  # again: the isolation may clear it
    birth.settle(start)
    birth.fresh_main_module()
    paths = list(start.get("paths") or [])
    if paths and os.path.isdir(paths[0]):
        os.chdir(paths[0])
    run_worker(start, lambda: load_handler(start["handler"], paths, start["endpoint"]["name"]), 0.0)
