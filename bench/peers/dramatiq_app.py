"""Dramatiq as its documentation sets it up for tasks with results: a message is acknowledged when it is done."""

import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

url = os.environ["BENCH_BROKER"]
broker = RedisBroker(url=url)
broker.add_middleware(Results(backend=RedisBackend(url=url)))
dramatiq.set_broker(broker)
submitted = 0


@dramatiq.actor(store_results=True)
def echo(text):
    return {"text": text}


def submit(count, text):
    global submitted
    for _ in range(count):
        echo.send(text)
    submitted += count


def done():
    return submitted - broker.do_qsize(echo.queue_name)


def round_trip(text):
    echo.send(text).get_result(block=True, timeout=60_000)
