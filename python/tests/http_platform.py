"""An HTTP server in the platform's place: a test says how each request is answered and looks at what came."""

from __future__ import annotations

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

DROP = object()
"""The connection ends without an answer."""


class Request:
    def __init__(self, method: str, target: str, headers: dict, body: bytes) -> None:
        parts = urlsplit(target)
        self.method = method
        self.path = parts.path
        self.query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def action(self) -> str:
        """`run`, `runsync`, `status-sync`, …, or `graphql`."""
        parts = self.path.strip("/").split("/")
        return parts[2] if parts[0] == "v2" else parts[0]


class HttpPlatform:
    """`answers(request)` gives (status, JSON or bytes), (status, body, headers), an iterator of bytes, or DROP."""

    def __init__(self, answers=None, tls: ssl.SSLContext | None = None) -> None:
        self.answers = answers or (lambda request: (404, {"error": "nothing here"}))
        self.requests: list[Request] = []
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.command, self.path, headers, self.rfile.read(length))
                with outer._lock:
                    outer.requests.append(request)
                self.reply(outer.answers(request))

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def reply(self, answer) -> None:
                if answer is DROP:
                    self.close_connection = True
                    return
                if not isinstance(answer, tuple):
                    self.send_response(200)
                    self.send_header("Content-Type", "text/event-stream")
                    self.end_headers()
                    self.close_connection = True
                    for part in answer:
                        self.wfile.write(part)
                        self.wfile.flush()
                    return
                status, body, *more = answer
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in (more[0] if more else {"Content-Type": "application/json"}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            listening = self._server.socket
            self._server.socket = tls.wrap_socket(listening, server_side=True, do_handshake_on_connect=False)
        self._server.handle_error = lambda request, address: None  # callers that leave are what some tests are about
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def seen(self, action: str) -> list[Request]:
        return [request for request in self.requests if request.action == action]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def completed(output, id: str = "sync-1") -> tuple:
    return 200, {"id": id, "status": "COMPLETED", "output": output, "delayTime": 1, "executionTime": 1, "workerId": "w"}


def failed(status: str, error=None, id: str = "sync-1") -> tuple:
    job = {"id": id, "status": status, "delayTime": 1, "executionTime": 1, "workerId": "w"}
    return 200, job if error is None else {**job, "error": json.dumps(error)}


def waiting(id: str = "sync-1") -> tuple:
    return 200, {"id": id, "status": "IN_QUEUE", "delayTime": 1, "executionTime": 0, "workerId": ""}


def app(*endpoints: tuple[str, str, str], environment: str = "production", url: str = "") -> tuple:
    """The answer to the query of a script: (id, name, kind) of each endpoint."""
    found = [
        {"id": id, "name": name, "kind": kind, "url": f"{url}/{'v2' if kind == 'queue' else 'lb'}/{id}"}
        for id, name, kind in endpoints
    ]
    return 200, {"data": {"app": {"environments": [{"name": environment, "endpoints": found}]}}}


def peer(id: str, kind: str = "queue") -> tuple:
    """The answer to the query of a worker."""
    return 200, {"data": {"peer": {"id": id, "kind": kind, "url": "http://public.example"}}}


def gone() -> tuple:
    return 404, {"error": "There is no endpoint.", "code": "ENDPOINT_NOT_FOUND", "status": 404}
