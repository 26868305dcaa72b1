"""Streams of chunks on bare ASGI, as bench/streams.ts has them: `/plain` and `/openai`, until the caller leaves."""

import asyncio
import json
import time

PAUSE_S = 0.02


def word():
    return f"@{time.monotonic_ns() // 1000:016d} "


def completion():
    choice = {"index": 0, "finish_reason": None, "delta": {"content": word()}}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    message = await receive()
    while message.get("more_body"):
        message = await receive()
    made = completion if scope["path"] == "/openai" else word
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    # As frameworks do it: a second task waits for the caller to leave.
    chunks = asyncio.ensure_future(send_chunks(made, send))
    await receive()
    chunks.cancel()


async def send_chunks(made, send):
    while True:
        body = f"data: {json.dumps(made())}\n\n".encode()
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await asyncio.sleep(PAUSE_S)
