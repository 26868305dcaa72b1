"""Celery as its documentation sets it up for tasks that must not be lost: acks_late, one task fetched ahead, JSON."""

import os

import redis
from celery import Celery

url = os.environ["BENCH_BROKER"]
app = Celery("bench", broker=url, backend=url)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    task_serializer="json",
    result_serializer="json",
    accept_content=["json"],
)
broker = redis.Redis.from_url(url)
submitted = 0


@app.task(name="echo")
def echo(text):
    return {"text": text}


def submit(count, text):
    global submitted
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(count):
            echo.apply_async((text,), producer=producer)
    submitted += count


def done():
    return submitted - broker.llen("celery") - broker.hlen("unacked")


def round_trip(text):
    echo.delay(text).get(timeout=60, interval=0.0005)
