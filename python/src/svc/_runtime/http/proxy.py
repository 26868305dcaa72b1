"""Requests of an endpoint that has a server of its own: each goes through to it on a connection of its own, both bodies
as they come and no faster than they are taken."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import sys

from svc._runtime.http.frames import failed, result_frame, stream_end, stream_part, stream_start
from svc._runtime.http.reply import Reply, error_reply
from svc._runtime.http.server_process import ServerProcess
from svc._runtime.http.upstream import HOP_BY_HOP, BadAnswer, Head, body_parts, read_head
from svc._runtime.http.websocket_route import GUID, refusal_of
from svc._runtime.limits import BODY_FRAME_BYTES, SERVER_EXIT_WAIT_S, WHOLE_BODY_MAX_BYTES
from svc._runtime.work.worker import WorkerFailed

_OURS = HOP_BY_HOP | {"content-length", "expect", "x-forwarded-prefix"}


class ProxyRequests:
    """What a worker knows of HTTP when a server answers: nothing but how to pass requests on."""

    has_application = True

    def __init__(self, settings: dict, paths: list[str]) -> None:
        self._settings = settings
        self._paths = paths
        self._prefix = ""
        self._id = ""
        self._server: ServerProcess | None = None
        self._watch: asyncio.Task | None = None
        self.failed = failed

    def reads_as_it_comes(self, head: dict) -> bool:
        return True

    async def start(self, worker) -> None:
        """Raises BootFailure when the server does not come up."""
        self._id = worker.endpoint_id
        self._server = ServerProcess(self._settings, self._paths)
        await self._server.start(worker)
        self._watch = asyncio.ensure_future(self._look_after(worker))

    async def stop(self) -> None:
        self._watch.cancel()
        await self._server.stop()

    async def _look_after(self, worker) -> None:
        await self._server.exited.wait()
        ended = f"the server {self._server.how_it_ended()}"
        sys.stderr.write(f"[svc] {ended}; the last it printed:\n{self._server.last_lines() or '(nothing)'}\n")
        worker.fail(WorkerFailed(ended, self._server.code or 1))

    async def answer_async(self, worker, work) -> bytes:
        work.tagged = False  # the server speaks for itself
        is_socket = work.head["method"] == "WEBSOCKET"
        refusal = refusal_of(work.head) if is_socket else None
        if refusal is not None:
            return result_frame(work, refusal)
        try:
            reader, writer = await self._server.connect()
            try:
                return await (self._socket if is_socket else self._exchange)(worker, work, reader, writer)
            finally:
                writer.transport.abort()
        except (OSError, EOFError, BadAnswer) as error:
            return await self._failed(work, error)

    async def _exchange(self, worker, work, reader, writer) -> bytes:
        method = work.head["method"]
        length = _declared(work)
        writer.write(self._request(work, method, ["connection: close", _framing(work, method, length)]))
        sending = _watched(_send(work, writer, length))
        try:
            head = await read_head(reader, method)
            reply = Reply(head.status, head.headers)
            if head.length is not None and head.length <= BODY_FRAME_BYTES:
                reply.body = await _whole(reader, head)
                return result_frame(work, reply)
            await _start(worker, work, reply)
            async for part in body_parts(reader, head):
                await _pass(worker, work, part)
            return stream_end(work)
        finally:
            sending.cancel()

    async def _socket(self, worker, work, reader, writer) -> bytes:
        """After its 101 the bytes of the connection pass through, extensions and all."""
        writer.write(self._request(work, "GET", ["connection: Upgrade", "upgrade: websocket"]))
        head = await read_head(reader, "GET", upgrades=True)
        if head.status != 101:
            return result_frame(work, Reply(head.status, head.headers, await _whole(reader, head)))
        given = dict(head.headers).get("sec-websocket-accept")
        if given != _accept(work.head):
            raise BadAnswer("its Sec-WebSocket-Accept does not fit the request")
        headers = [each for each in head.headers if each[0] not in ("content-length", "content-type")]
        await _start(worker, work, Reply(101, [["content-type", ""], *headers]))
        sending = _watched(_send_raw(work, writer))
        try:
            while part := await reader.read(BODY_FRAME_BYTES):
                await _pass(worker, work, part)
            return stream_end(work)
        finally:
            sending.cancel()

    def _request(self, work, method: str, own: list[str]) -> bytes:
        head = work.head
        query = head.get("query", "")
        target = head["path"] + (f"?{query}" if query else "")
        headers = [f"{name}: {value}" for name, value in head["headers"] if name not in _OURS]
        host = next((value for name, value in head["headers"] if name == "host"), "")
        if not host.startswith(self._id + "."):
            own = [*own, f"x-forwarded-prefix: /lb/{self._id}"]
        lines = [f"{method} {target} HTTP/1.1", *headers, *filter(None, own)]
        if any("\r" in line or "\n" in line for line in lines) or " " in target:
            raise BadAnswer("the request cannot be passed on")
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")

    async def _failed(self, work, error: BaseException) -> bytes:
        """The end of a request that the server did not answer as it should."""
        server = self._server
        if await server.ends_within(SERVER_EXIT_WAIT_S):
            reply = error_reply(502, "WORKER_LOST", "The worker was lost", f"The server {server.how_it_ended()} meanwhile.")
        else:
            what = error if isinstance(error, BadAnswer) or str(error) else type(error).__name__
            print(f"[svc] {work.head['method']} {work.head['path']}: the server's answer is unusable: {what}", file=sys.stderr)
            detail = "The endpoint's server did not answer with HTTP as it should; the endpoint's log has the details."
            reply = error_reply(502, "BAD_RESPONSE", "The answer cannot be sent", detail)
        return stream_end(work, failed=True) if work.started else result_frame(work, reply)


def _accept(head: dict) -> str:
    key = next((value for name, value in head["headers"] if name == "sec-websocket-key"), "")
    return base64.b64encode(hashlib.sha1(key.encode() + GUID).digest()).decode()


def _declared(work) -> int | None:
    """Bytes of the request's body; None while they are not known."""
    if work.upload is None:
        return len(work.body)
    said = [value for name, value in work.head["headers"] if name == "content-length"]
    return int(said[0]) if len(said) == 1 and said[0].isascii() and said[0].isdigit() else None


def _framing(work, method: str, length: int | None) -> str:
    if length is None:
        return "transfer-encoding: chunked"
    return f"content-length: {length}" if length or method in ("POST", "PUT", "PATCH") else ""


async def _send(work, writer, length: int | None) -> None:
    """The request's body. A connection on which it cannot be as long as it says is cut."""
    try:
        if work.upload is None:
            writer.write(work.body)
            return
        sent = 0
        while part := await work.upload.next_part():
            sent += len(part)
            if length is not None and sent > length:
                break
            writer.write(part if length is not None else b"%x\r\n%b\r\n" % (len(part), part))
            await writer.drain()
        if length is None:
            writer.write(b"0\r\n\r\n")
        elif sent != length:
            writer.transport.abort()
    except (ConnectionError, BrokenPipeError):
        pass  # It answers before it has read all.


async def _send_raw(work, writer) -> None:
    while part := await work.upload.next_part():
        writer.write(part)
        await writer.drain()
    writer.write_eof()


def _watched(sending) -> asyncio.Task:
    """Who waits for the answer hears of its failure by the connection."""
    task = asyncio.ensure_future(sending)
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return task


async def _whole(reader, head: Head) -> bytes:
    body = bytearray()
    async for part in body_parts(reader, head):
        body += part
        if len(body) > WHOLE_BODY_MAX_BYTES:
            raise BadAnswer(f"its refusal is longer than {WHOLE_BODY_MAX_BYTES} bytes")
    return bytes(body)


async def _start(worker, work, reply: Reply) -> None:
    for frame in stream_start(work, reply, b""):
        worker.write(frame)
    work.started = True


async def _pass(worker, work, part: bytes) -> None:
    for frame in stream_part(work, part):
        worker.write(frame)
        if work.window <= 0:
            await worker.window_opens(work)
