"""Endpoints that others call."""

import dataclasses
import datetime
import enum
import os
import time
from typing import AsyncIterator, Iterator

from svc import Endpoint, context, progress


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    color: Color
    at: datetime.date | None = None


@Endpoint(name="infer", workers=(0, 2))
def infer(x: int, scale: int = 1) -> int:
    if x < 0:
        raise ValueError(f"x is negative: {x}")
    return x * scale


@Endpoint(name="move", workers=(0, 2))
async def move(point: Point, by: int = 1) -> Point:
    return dataclasses.replace(point, x=point.x + by)


@Endpoint(name="count", workers=(0, 2))
def count(n: int, fails: bool = False) -> Iterator[tuple[int, bytes]]:
    for number in range(n):
        yield number, bytes(number)
    if fails:
        raise RuntimeError("no more")


@Endpoint(name="gated", workers=(0, 2), idle_timeout=300)
def gated(gate: str) -> str:
    """Runs until a file is there."""
    progress("begun")
    while not os.path.exists(gate):
        time.sleep(0.01)
    return "opened"


@Endpoint(name="ticks", workers=(0, 1))
def ticks(gate: str) -> Iterator[int]:
    """Two chunks before a file is there, and two after."""
    progress("begun")
    yield 1
    yield 2
    while not os.path.exists(gate):
        time.sleep(0.01)
    yield 3
    yield 4


@Endpoint(name="left", workers=(0, 2))
def left() -> float:
    return context().remaining_s


@Endpoint(name="model", workers=(0, 1))
class Model:
    def __init__(self):
        self.calls = 0

    def predict(self, text: str) -> int:
        self.calls += 1
        return len(text)


api = Endpoint(name="api", workers=(0, 2))


@api.get("/items/{item_id}")
def item(item_id: int, q: str = "none") -> dict:
    return {"id": item_id, "q": q}


@api.post("/points")
def points(points: list[Point]) -> set[int]:
    return {point.x for point in points}


@api.post("/large")
def large(n: int) -> list[tuple[int, bytes]]:
    return [(number, b"x") for number in range(n)]


@api.post("/large-later")
async def large_later(n: int) -> bytes:
    return b"x" * n


@api.post("/boom")
def boom(text: str) -> None:
    raise KeyError(text)


@api.post("/parts")
async def parts(n: int) -> AsyncIterator[Point]:
    for number in range(n):
        yield Point(number, Color.RED, datetime.date(2024, 1, 1))
