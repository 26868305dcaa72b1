"""Sync functions, several at a time: the main thread reads, a pool of `max_concurrency` threads runs.

CANCEL raises `Cancelled` in the job's thread at its next Python instruction; a thread that waits inside a call
(a sleep, a socket) sees it when the call returns.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue
from time import perf_counter
from types import AsyncGeneratorType, CoroutineType, GeneratorType

from svc._runtime import protocol
from svc._runtime.blocking import _run_to_end
from svc._runtime.protocol import CHUNK, encode
from svc._runtime.requests import answer_frames, failed_reply, result_frame
from svc._runtime.work import (
    Work, bounded, call_with, encoded, failure_of, job_call, job_result, new_context, output_of,
)  # fmt: skip
from svc._runtime.worker import Worker
from svc.context import Cancelled, current


class ThreadWorker(Worker):
    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self._wake: SimpleQueue[None] = SimpleQueue()
        """One entry for each work that may wait; a thread that finds none sleeps on."""
        self._state = threading.RLock()

    def loop(self) -> None:
        for number in range(self.concurrency):
            threading.Thread(target=self._serve, name=f"svc-job-{number}", daemon=True).start()
        connection = self.connection
        while True:
            while connection.early_frames:
                self.dispatch(connection.early_frames.pop(0))
            for _ in range(min(len(self.pending), self.concurrency)):
                self._wake.put(None)
            if self.draining and self.finished():
                return
            frames = connection.read()
            if frames is None:
                self.link_broke()
                connection.recover()
                continue
            for frame in frames:
                self.dispatch(frame)

    def _serve(self) -> None:
        while True:
            try:
                self._wake.get()
                while (work := self._next()) is not None:
                    self._run(work)
            except Cancelled:
                pass  # came too late for its job

    def _next(self) -> Work | None:
        with self._state:
            if not self.pending:
                return None
            work = self.pending.popleft()
            new_context(work, self.who, self.reporter(work))
            self.running[work.channel] = work
            return work

    def _cancel(self, channel: int, reason: str) -> None:
        with self._state:
            super()._cancel(channel, reason)

    def _run(self, work: Work) -> None:
        current.set(work.context)
        began = perf_counter()
        with self._state:
            work.task = threading.get_ident()
        try:
            if work.type == protocol.JOB:
                frame = self._job_frame(work, began)
            else:
                frame = self._request_frame(work, began)
        except BaseException as error:
            frame = self._failed_frame(work, error, began)
        finally:
            with self._state:
                work.task = None
            self.end_output(work.channel)
            current.set(None)
        self.running.pop(work.channel, None)
        if frame is not None:
            self.send_result(work, frame)
        if self.draining and self.finished():
            self.leave("drained")  # no frame will come that would wake the main thread

    def _job_frame(self, work: Work, began: float) -> bytes:
        function, given = job_call(work, self.callables)
        value = call_with(function, given)
        kind = value.__class__
        if kind is GeneratorType:
            parts = []
            for item in value:
                parts.append(encoded(work, item))
                self.emit(encode(CHUNK, work.channel, None, parts[-1]), True)
            ok, body = True, bounded(b"[" + b",".join(parts) + b"]")
        else:
            if kind is CoroutineType or kind is AsyncGeneratorType:
                value = _run_to_end(value)
            ok, body = output_of(work, value)
        return job_result(work, ok, body, (perf_counter() - began) * 1000)

    def _request_frame(self, work: Work, began: float) -> bytes | None:
        reply = self.routes.answer(work)
        if reply.stream is None:
            return result_frame(work, reply, (perf_counter() - began) * 1000)
        for frame in answer_frames(work, reply, began, self.await_room):
            self.emit(frame, False)
        return None

    def _failed_frame(self, work: Work, error: BaseException, began: float) -> bytes:
        exec_ms = (perf_counter() - began) * 1000
        if work.type == protocol.JOB:
            return job_result(work, False, failure_of(error, self.who, work.cancel_reason), exec_ms)
        return result_frame(work, failed_reply(error, work), exec_ms)

    def cancel_running(self, work: Work) -> None:
        import ctypes

        with self._state:  # the thread is on this work as long as the lock is held
            if work.task is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(work.task), ctypes.py_object(Cancelled))
