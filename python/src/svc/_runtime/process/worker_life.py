"""The life of a worker's process: it loads the endpoint, greets the platform, runs until drained, says goodbye."""

from __future__ import annotations

import os
import signal
import threading
from time import monotonic

from svc import this_worker
from svc._runtime.limits import KEPT_BUFFER_BYTES, RECONNECT_DEFAULT_MS, UPLOAD_WINDOW_BYTES
from svc._runtime.link import protocol
from svc._runtime.link.connection import Connection, Refused, Unreachable
from svc._runtime.link.protocol import boot_failed, encode
from svc._runtime.process import debugger
from svc._runtime.work.interruption import exit_code
from svc._runtime.work.worker import Worker, WorkerFailed, end_process, plain_output
from svc._values.failure import BootFailure, describe


def run_worker(start: dict, load, import_ms: float, meanwhile=None, ahead=None) -> None:
    """The life of a worker process after fork or spawn. Never returns.

    `load()` gives the LoadedEndpoint (raises BootFailure); `import_ms` is what its import took in this boot;
    `meanwhile()` is called while the platform answers the greeting. `ahead` is a LinkAhead, if one was opened.
    """
    code = 0
    worker = None
    connection = Connection(
        start["socket"],
        start["token"],
        start["worker"],
        start.get("reconnectMs") or RECONNECT_DEFAULT_MS,
        start.get("platform"),
        ahead,
    )
    try:
        try:
            worker = _boot(start, load, import_ms, connection, meanwhile)
        except BootFailure as failure:
            code = 1
            head = {"worker": start["worker"], **failure.fields}
            connection.open(boot_failed(head))
            return
        _keep_large_buffers()
        worker.loop()
        worker.goodbye("drained")
    except WorkerFailed as failure:
        code = failure.code
        worker.goodbye(str(failure))
    except (Refused, Unreachable) as error:
        code = 0 if isinstance(error, Refused) else 1
        os.write(2, f"[svc] worker ends: {error}\n".encode())
    except SystemExit as error:  # A job's own is its result.
        code = exit_code(error)
        os.write(2, f"[svc] worker ends: a callback of its event loop called sys.exit({error})\n".encode())
    except BaseException as error:  # a fault of ours: say so before going
        code = 70
        os.write(2, f"[svc] worker failed: {describe(error)['error_message']}\n".encode())
        import traceback

        os.write(2, traceback.format_exc().encode())
    finally:
        connection.close()
        if worker is not None:
            plain_output()
            worker.exit()
        end_process(code)


def _boot(start: dict, load, import_ms: float, connection: Connection, meanwhile) -> Worker:
    began = monotonic()
    endpoint = load()
    here = this_worker.enter(start, endpoint.name, endpoint.instances)
    connection.on_welcome = here.welcomed
    connection.pulls = endpoint.pulls
    kind = way_to_run(endpoint, int(start.get("concurrency") or 1))
    worker = kind(start, {}, endpoint.requests(), connection)
    here.running = worker.running
    worker.retries = endpoint.retries()
    worker.capture_output()
    _leave_in_children(worker.forked)
    try:
        debugger.prepare(start.get("paths") or [""])
        worker.prepare()
        worker.callables = endpoint.callables()
        worker.enter(endpoint.instances)
    except BootFailure:
        raise
    except BaseException as error:
        raise BootFailure(describe(error, endpoint.name)) from None
    finally:
        worker.end_output(0)
    signal.signal(signal.SIGTERM, lambda *_: _leave(worker))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    now = monotonic()
    import_ms += (now - began) * 1000
    boot_ms = max(0.0, (now - start.get("startedAt", now)) * 1000 - import_ms)
    head = {
        "slots": worker.concurrency,
        "window": UPLOAD_WINDOW_BYTES,
        "bootMs": round(boot_ms, 3),
        "importMs": round(import_ms, 3),
    }
    connection.open(encode(protocol.CREDIT, 0, head), meanwhile)
    return worker


def _keep_large_buffers() -> None:
    """From now on the C library keeps what a large body took for the next one: glibc does so up to the size of a block that it
    was given back. Fresh pages for each copy of it cost more than the copying. These are never touched: they take no memory."""
    try:
        bytes(KEPT_BUFFER_BYTES)
    except MemoryError:
        pass


def _leave_in_children(forked) -> None:
    """Calls `forked()` in each child that user code forks. A SIGTERM that comes before would run into a handler that is about to go, and be lost."""
    before = threading.local()

    def hold() -> None:
        before.mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))

    def let_go() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before.mask)

    def in_child() -> None:
        forked()
        let_go()

    os.register_at_fork(before=hold, after_in_parent=let_go, after_in_child=in_child)


def way_to_run(endpoint, concurrency: int) -> type[Worker]:
    """Imports only what this endpoint needs; a zygote calls it so that its forks find everything imported."""
    from svc._values.signature import is_async

    if endpoint.has_application() or any(is_async(function) for function in endpoint.functions()):
        from svc._runtime.work.event_loop import EventLoopWorker

        return EventLoopWorker
    if concurrency > 1:
        from svc._runtime.work.threads import ThreadWorker

        return ThreadWorker
    from svc._runtime.work.blocking import BlockingWorker

    return BlockingWorker


def _leave(worker: Worker) -> None:
    """SIGTERM: at once when idle, else after what runs (the launcher kills after its grace)."""
    worker.draining = True
    if worker.leaving:
        return
    # In the middle of a send, of TLS or of its first greeting it may not speak; the launcher sends the signal again.
    if worker.finished() and worker.connection.was_welcome and not worker.connection.is_engaged:
        worker.leave("stopped")
