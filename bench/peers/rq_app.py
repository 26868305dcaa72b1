"""RQ as its documentation sets it up: a process for each job."""

import os

from echo_task import echo
from redis import Redis
from rq import Queue

queue = Queue(connection=Redis.from_url(os.environ["BENCH_BROKER"]))


def submit(count, text):
    for _ in range(count):
        queue.enqueue(echo, text)


def done():
    return queue.finished_job_registry.get_job_count(cleanup=False)


def round_trip(text):
    queue.enqueue(echo, text).latest_result(timeout=60)
