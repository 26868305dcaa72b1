"""The routes that test/e2e/load-balanced.test.ts calls."""

import asyncio
import enum
import os
import resource
import threading
import time
from dataclasses import dataclass
from typing import AsyncIterator, Literal, Optional

from svc import Endpoint, Response, SocketClosed, WebSocket, context

api = Endpoint(name="api", workers=(0, 2), cors=["https://page.example"])
live = Endpoint(name="live", workers=(0, 2), max_concurrency=1000)
threads = Endpoint(name="threads", workers=(0, 1), max_concurrency=4)
never = Endpoint(name="never", workers=(0, 0), request_timeout_ms=1000)

NOTES = os.environ.get("NOTES", "/nowhere")


class Color(enum.Enum):
    RED = "red"


@dataclass
class Item:
    name: str
    price: float = 1.5


def note(text):
    with open(f"{NOTES}/{text}", "w"):
        pass


@api.get("/items/{item_id}")
def item(item_id: int, tag: list[str] = [], limit: int = 10, sort: Literal["up", "down"] = "up", q: Optional[bool] = None):
    """One item.

    With its tags.
    """
    return {"item_id": item_id, "tag": tag, "limit": limit, "sort": sort, "q": q}


@api.post("/fields")
def fields(n: int, color: Color, item: Item, ratio: float = 0.5):
    return {"n": n, "color": color, "item": item, "ratio": ratio}


@api.post("/whole")
def whole(item: Item):
    return item


@api.post("/raw")
def raw(body: bytes):
    return body


@api.post("/files")
def files(title: str, file: bytes, n: int = 1):
    return {"title": title, "size": len(file), "filename": file.filename, "n": n}


@api.get("/kind/{kind}")
def kind(kind: str):
    return {
        "dict": {"a": 1}, "list": [1, 2], "str": "text", "none": None, "bytes": b"\x00\xff", "status": ({"a": 1}, 201),
        "headers": ("moved", 302, {"location": "/x"}), "response": Response("<p>", 203, {"x-a": "b"}, "text/html"),
    }[kind]  # fmt: skip


@api.get("/numbers")
def numbers(count: int = 3):
    for number in range(count):
        yield {"number": number}


@api.get("/breaks")
def breaks():
    yield "one"
    raise ValueError("in the middle")


@api.get("/raises")
def raises():
    raise ValueError("a secret reason")


@api.get("/large")
def large(size: int):
    return b"x" * size


@api.get("/sleep")
def sleep(seconds: float):
    note("sleep-began")
    try:
        time.sleep(seconds)
    finally:
        note(f"sleep-cancelled-{context().cancelled}")
    return "slept"


@live.get("/ticks")
async def ticks(count: int, pause: float, go: str = ""):
    for number in range(count):
        yield f"data: {number}\n\n"
        await asyncio.sleep(pause)
        while go and not os.path.exists(os.path.join(NOTES, go)):
            await asyncio.sleep(0.01)


@live.post("/sum")
async def total(parts: AsyncIterator[bytes]):
    size, count = 0, 0
    async for part in parts:
        size, count = size + len(part), count + 1
    return {"size": size, "several": count > 1}


@live.post("/mirror")
async def mirror(parts: AsyncIterator[bytes]):
    async for part in parts:
        yield part


@live.get("/forever")
async def forever():
    note("forever-began")
    try:
        yield b"x" * 1000
        while True:
            await asyncio.sleep(0)
            yield b"x" * 16384
    finally:
        note("forever-ended")


@live.get("/wait")
async def wait():
    note("wait-began")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        note("wait-cancelled")
        raise


@live.get("/pid")
async def pid():
    return f"{os.readlink('/proc/self/ns/pid')} {os.getpid()}"


async def deaf(socket: WebSocket):
    """Does not read before there is a note that says so, and tells what memory it has held meanwhile."""
    await socket.accept()
    while not os.path.exists(os.path.join(NOTES, "hear")):
        await socket.send({"heldKb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss})
        await asyncio.sleep(0.05)
    size = 0
    while isinstance(message := await socket.receive(), bytes):
        size += len(message)
    await socket.send({"size": size})


@live.websocket("/chat/{room}")
async def chat(socket: WebSocket, room: str, n: int = 1):
    if room == "closed":
        return await socket.close()
    if room == "broken":
        await socket.accept()
        raise ValueError("a secret reason")
    if room == "deaf":
        return await deaf(socket)
    await socket.accept("v2" if "v2" in socket.headers.get("sec-websocket-protocol", "") else None)
    try:
        while True:
            message = await socket.receive()
            await socket.send({"room": room, "n": n, "text": message} if isinstance(message, str) else message)
    except SocketClosed as closed:
        note(f"chat-closed-{closed.code}")
    except asyncio.CancelledError:
        note("chat-cancelled")
        raise


together = threading.Barrier(4)


@threads.get("/sleep")
def thread_sleep(seconds: float):
    time.sleep(seconds)
    return context().worker_id


@threads.get("/meet")
def thread_meet():
    together.wait(60)
    return context().worker_id


@never.get("/")
def nothing():
    return "never"


whole_app = Endpoint(name="whole", workers=(0, 1), max_concurrency=10)
started = []


@whole_app.asgi
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        started.append("yes")
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    if scope["path"].endswith("/after"):
        asked = (await receive())["type"]
        waiting = asyncio.ensure_future(receive())
        await asyncio.sleep(0)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"whole"})
        note("-".join([asked, (await waiting)["type"], (await receive())["type"]]))
        return
    if scope["path"].endswith("/endless"):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            while True:
                await send({"type": "http.response.body", "body": b"more", "more_body": True})
                await asyncio.sleep(0.01)
        except OSError:
            note("app-sends-no-more")
            raise
    if scope["path"].endswith("/later"):
        await send({"type": "http.response.start", "status": 201, "headers": [(b"content-type", b"text/event-stream")]})
        while not os.path.exists(os.path.join(NOTES, "later")):
            await asyncio.sleep(0.01)
        await send({"type": "http.response.body", "body": b"data: now\n\n"})
        return
    if scope["path"].endswith("/parts"):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        sizes = [int(size) for size in scope["query_string"].split(b",")]
        for at, size in enumerate(sizes, 1):
            await send({"type": "http.response.body", "body": b"x" * size, "more_body": at < len(sizes)})
        return
    await send({"type": "http.response.start", "status": 202, "headers": [(b"X-Path", scope["path"].encode())]})
    await send({"type": "http.response.body", "body": f"{started[0]} {scope['root_path']} ".encode(), "more_body": True})
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            note("app-disconnected")
            return
        if message["body"] == b"wait":
            note("app-waits")
            continue
        await send({"type": "http.response.body", "body": message["body"], "more_body": message["more_body"]})
        if not message["more_body"]:
            return
