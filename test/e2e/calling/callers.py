"""Endpoints that call others: at the top of the module and inside functions, sync and async, queued and load-balanced."""

import asyncio

import svc
from infer import Color, Model, Point, boom, count, gated, infer, item, large, large_later, left, move, parts, points, ticks
from svc import Endpoint

RED = Point(1, Color.RED)


def seen(error: svc.RemoteError) -> list[str]:
    return [error.endpoint, error.error_type, error.error_message, error.error_traceback]


@Endpoint(name="sync-caller", workers=(0, 2))
def sync_caller() -> dict:
    found = {
        "positional": infer(2, 3),
        "keywords": infer(x=2, scale=4),
        "moved": asyncio.run(move(RED, by=5)) == Point(6, Color.RED),
        "chunks": list(count(3)),
        "route": item(7, q="a b"),
        "values": points([RED, RED]),
        "large": large(100_000) == [(number, b"x") for number in range(100_000)],
        "larger": asyncio.run(large_later(3_000_000)) == b"x" * 3_000_000,
        "method": Model().predict("four"),
        "mapped": list(infer.map(range(5))),
        "spawned": infer.spawn(9).wait(),
    }
    from infer import infer as imported_here

    found["imported inside"] = imported_here(1)
    for name, call in (("failure", lambda: infer(-1)), ("route failure", lambda: boom("key"))):
        try:
            call()
        except svc.RemoteError as error:
            found[name] = seen(error)
    chunks = []
    try:
        for chunk in count(2, fails=True):
            chunks.append(chunk)
    except svc.RemoteError as error:
        chunks.append(error.error_message)
    found["broken stream"] = chunks
    return found


@Endpoint(name="async-caller", workers=(0, 2), max_concurrency=4)
async def async_caller() -> dict:
    return {
        "gathered": await asyncio.gather(*[infer(n) for n in range(5)]),
        "moved": await move(RED),
        "parts": [part async for part in parts(2)],
        "chunks": [chunk async for chunk in count(2)],
        "mapped": [one async for one in infer.map_aio(range(4))],
        "method": await svc.remote(Model).predict("abc"),
    }


web = Endpoint(name="web", workers=(0, 2))


@web.get("/sum")
def summed(n: int) -> int:
    return infer(n) + other(n)


@web.get("/other")
def other(n: int) -> int:
    return n


@Endpoint(name="first", workers=(0, 1))
def first() -> None:
    second()


@Endpoint(name="second", workers=(0, 1))
def second() -> None:
    first()


@Endpoint(name="hurried", workers=(0, 1), execution_timeout_ms=8000)
def hurried(gate: str) -> list:
    remaining = left()
    return [remaining, gated(gate)]


@Endpoint(name="waiter", workers=(0, 1), idle_timeout=300)
def waiter(gate: str) -> str:
    return gated(gate)


@Endpoint(name="listener", workers=(0, 1), idle_timeout=300)
def listener(gate: str) -> list[int]:
    return list(ticks(gate))


@Endpoint(name="again", workers=(0, 1), idle_timeout=300)
def again(x: int) -> int:
    return infer(x)
