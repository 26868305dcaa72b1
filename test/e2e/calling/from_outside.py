"""`python from_outside.py` beside the worker files: the same calls go to what is deployed. Prints JSON."""

import asyncio
import json

import svc
from callers import async_caller, first, summed, sync_caller
from infer import Color, Point, infer


def shown(value):
    return json.loads(json.dumps(value, default=repr))


cycle = None
try:
    first()
except svc.RemoteError as error:
    cycle = str(error)

print(
    json.dumps(
        {
            "sync": shown(sync_caller()),
            "async": shown(asyncio.run(async_caller())),
            "web": summed(20),
            "cycle": cycle,
            "local": infer.local(3),
            "many": sum(infer.map(range(1000))),
            "red": shown(Point(1, Color.RED)),
        }
    )
)
