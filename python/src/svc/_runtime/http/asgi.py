"""Runs a whole ASGI application on a worker's event loop: its lifespan, requests with bodies streamed both ways, WebSockets."""

from __future__ import annotations

import asyncio
import sys
from urllib.parse import unquote

from svc._runtime.http.frames import failed_reply, result_frame, stream_end, stream_part, stream_start
from svc._runtime.http.reply import Reply
from svc._runtime.limits import ASGI_DISCONNECT_GRACE_S, ASGI_HEAD_WAIT_S, ASGI_SHUTDOWN_S, WHOLE_BODY_MAX_BYTES
from svc._runtime.work.upload import Upload
from svc._values.failure import BootFailure, describe, user_traceback
from svc.context import Cancelled

_VERSIONS = {"version": "3.0", "spec_version": "2.4"}


class Lifespan:
    """Startup before the first request, shutdown after the last. An application without lifespan events is fine."""

    def __init__(self, app, endpoint: str) -> None:
        self._app = app
        self._endpoint = endpoint
        self._events: asyncio.Queue = asyncio.Queue()
        self._answers: asyncio.Queue = asyncio.Queue()
        self._task: asyncio.Task | None = None
        self.state: dict = {}

    async def startup(self) -> None:
        """Raises BootFailure when the application says that it cannot start."""
        self._task = asyncio.ensure_future(self._run())
        answer = await self._ask("lifespan.startup")
        if answer is not None and answer["type"] == "lifespan.startup.failed":
            message = answer.get("message") or "the application's lifespan startup failed"
            raise BootFailure({"error_type": "StartupFailed", "error_message": message, "error_traceback": ""})

    async def shutdown(self) -> None:
        if self._task is not None and not self._task.done():
            try:
                await asyncio.wait_for(self._ask("lifespan.shutdown"), ASGI_SHUTDOWN_S)
            except asyncio.TimeoutError:
                self._task.cancel()

    async def _ask(self, event: str) -> dict | None:
        """The application's answer; None when it ended without one."""
        self._events.put_nowait({"type": event})
        answer = asyncio.ensure_future(self._answers.get())
        await asyncio.wait({answer, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        answer.cancel()
        return None

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": _VERSIONS, "state": self.state}
        asked = False

        async def receive() -> dict:
            nonlocal asked
            event = await self._events.get()
            asked = True
            return event

        async def send(message: dict) -> None:
            self._answers.put_nowait(message)

        try:
            await self._app(scope, receive, send)
        except Exception as error:
            # Raised before it asked for an event: the application does not know lifespans (the specification's way to say so).
            if asked and self._answers.empty():
                fields = describe(error, self._endpoint)
                self._answers.put_nowait({"type": "lifespan.startup.failed", "message": fields["error_message"]})


class Exchange:
    """One request and its response as the two callables of ASGI."""

    def __init__(self, work, worker, root_path: str, state: dict) -> None:
        self._work = work
        self._worker = worker
        self._upload = work.upload or Upload(work.body)
        self._body_ended = False
        self._reply: Reply | None = None
        self._head_due: asyncio.Handle | None = None
        self.ended = False
        self._sending: asyncio.Lock | None = None
        self.disconnected = asyncio.Event()
        self.scope = _scope(work.head, root_path, state)

    async def receive(self) -> dict:
        if not self._body_ended and not self.disconnected.is_set():
            try:
                part = await self._upload.next_part()
            except Cancelled:
                self.disconnected.set()
                return {"type": "http.disconnect"}
            self._body_ended = not part or self._upload.is_empty
            return {"type": "http.request", "body": part, "more_body": not self._body_ended}
        await self.disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict) -> None:
        kind = message["type"]
        if self.disconnected.is_set():
            await asyncio.sleep(0)  # an application that never waits must not hold up the others
            if self.ended:
                return
            from svc._runtime.http.asgi_websocket import Disconnected

            raise Disconnected("the caller went away")
        if kind == "http.response.start":
            headers = [[_text(name).lower(), _text(value)] for name, value in message.get("headers", ())]
            self._reply = Reply(message["status"], headers)
            if self._head_due is None:
                self._head_due = asyncio.get_running_loop().call_soon(self._await_body)
        elif kind == "http.response.body":
            if self._reply is None:
                raise RuntimeError("http.response.body came before http.response.start")
            self._head_due.cancel()
            part, more = bytes(message.get("body", b"")), message.get("more_body", False)
            if not self._work.started and not more and len(part) <= WHOLE_BODY_MAX_BYTES:
                self._send_whole(part)
                return
            if self._sending is None:
                self._sending = asyncio.Lock()
            async with self._sending:  # one at a time may wait for the window
                await self._send_body(part, more)

    def _await_body(self) -> None:
        """Mostly it comes before the loop turns, and goes out with the head; callers of event streams wait for the head alone."""
        if not self.ended:
            self._head_due = asyncio.get_running_loop().call_later(ASGI_HEAD_WAIT_S, self._send_head)

    def _send_head(self) -> None:
        if self.ended or self.disconnected.is_set():
            return
        try:
            frames = list(self._started(b""))
        except ValueError:
            return  # too long: the body, which cannot be sent either, says so
        for frame in frames:
            self._worker.write(frame)
        self._work.started = True

    def _started(self, part: bytes):
        if not any(name == "content-type" for name, _ in self._reply.headers):
            self._reply.headers.append(["content-type", "application/octet-stream"])
        return stream_start(self._work, self._reply, part)

    def _send_whole(self, body: bytes) -> None:
        self._reply.body = body
        frame = result_frame(self._work, self._reply)
        self._end()
        self._worker.write(frame)

    async def _send_body(self, part: bytes, more: bool) -> None:
        work, write = self._work, self._worker.write
        if not work.started:
            frames = self._started(part)
        else:
            frames = stream_part(work, part) if part else ()
        for frame in frames:
            write(frame)
            work.started = True
            if work.window <= 0:  # what was written is on its way: the caller's taking it opens the window
                await self._worker.window_opens(work)
                if self.disconnected.is_set():
                    return
        if not more:
            self._end()
            write(stream_end(work))

    def _end(self) -> None:
        """The answer is whole: whoever asks for events still, or waits for one, is told that there are no more."""
        self.ended = True
        self.disconnected.set()

    def fail(self, error: BaseException) -> None:
        """The application raised or ended without an answer."""
        if self.ended:
            return
        self.ended = True
        reply = failed_reply(error, self._work)
        if self._work.started:
            self._worker.write(stream_end(self._work, failed=True))
        else:
            self._worker.write(result_frame(self._work, reply))


class Application:
    def __init__(self, app, endpoint: str, endpoint_id: str) -> None:
        self._app = app
        self._endpoint_id = endpoint_id
        self.lifespan = Lifespan(app, endpoint)

    async def serve(self, work, worker) -> None:
        """Answers the request, whatever happens."""
        if work.head["method"] == "WEBSOCKET":
            await self._serve_socket(work, worker)
            return
        exchange = Exchange(work, worker, self._root_path(work.head), self.lifespan.state)
        work.gone = lambda: self._disconnect(exchange.disconnected.set, work)
        try:
            await self._app(exchange.scope, exchange.receive, exchange.send)
            if exchange.disconnected.is_set():
                exchange.fail(Cancelled(work.cancel_reason))
            elif not exchange.ended:
                exchange.fail(RuntimeError("the ASGI application ended without a whole response"))
        except BaseException as error:
            if exchange.ended:  # what it still does in the background fails: the caller has its answer
                if not isinstance(error, asyncio.CancelledError):
                    print(user_traceback(error), end="", file=sys.stderr)
                return
            # What it raises after the caller left is its way to end.
            gone = work.cancel_reason or exchange.disconnected.is_set()
            exchange.fail(Cancelled(work.cancel_reason) if gone else error)
        finally:
            work.gone = None

    async def _serve_socket(self, work, worker) -> None:
        from svc._runtime.http import asgi_websocket, websocket_route

        def on_gone(heard) -> None:
            work.gone = heard and (lambda: self._disconnect(heard, work))

        scope = _scope(work.head, self._root_path(work.head), self.lifespan.state)
        await websocket_route.serve(work, worker, lambda socket: asgi_websocket.run(self._app, scope, socket, on_gone))

    def _disconnect(self, heard, work) -> None:
        """The application hears of it first; one that goes on is cancelled."""
        heard()
        task = work.task
        asyncio.get_running_loop().call_later(ASGI_DISCONNECT_GRACE_S, lambda: task.done() or task.cancel())

    def _root_path(self, head: dict) -> str:
        """Where the application stands below the platform's address; "" when it has a host name of its own."""
        host = next((value for name, value in head.get("headers", ()) if name == "host"), "")
        return "" if host.startswith(self._endpoint_id + ".") else f"/lb/{self._endpoint_id}"


def _scope(head: dict, root_path: str, state: dict) -> dict:
    headers = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in head["headers"]]
    forwarded = next((value for name, value in headers if name == b"x-forwarded-proto"), b"http")
    # The platform says who calls, after whatever the caller said (docs/reference/load-balanced.md). It knows no port.
    callers = next((value for name, value in headers if name == b"x-forwarded-for"), b"").decode("latin-1")
    return {
        "type": "http",
        "asgi": _VERSIONS,
        "http_version": "1.1",
        "method": head["method"],
        "scheme": forwarded.decode("latin-1"),
        "path": root_path + unquote(head["path"]),
        "raw_path": (root_path + head["path"]).encode("latin-1", "replace"),
        "query_string": head.get("query", "").encode("latin-1", "replace"),
        "root_path": root_path,
        "headers": headers,
        "client": (callers.rpartition(",")[2].strip(), 0) if callers else None,
        "server": None,
        "state": state.copy(),
    }


def _text(value) -> str:
    return value if isinstance(value, str) else bytes(value).decode("latin-1")
