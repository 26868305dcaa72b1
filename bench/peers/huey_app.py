"""Huey as its documentation sets it up with Redis: a task leaves the queue when it begins, and is lost with its worker."""

import os

from huey import RedisHuey

huey = RedisHuey("bench", url=os.environ["BENCH_BROKER"], notify_result=True)


@huey.task()
def echo(text):
    return {"text": text}


def submit(count, text):
    for _ in range(count):
        echo(text)


def done():
    return huey.result_count()


def round_trip(text):
    echo(text).get(blocking=True, timeout=60)
