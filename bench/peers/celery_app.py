"""Celery as its documentation sets it up for tasks that must not be lost: acks_late, one task fetched ahead, JSON."""

import os

from celery import Celery

url = os.environ["BENCH_REDIS"]
app = Celery("bench", broker=url, backend=url)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    task_serializer="json",
    result_serializer="json",
    accept_content=["json"],
)


@app.task(name="echo")
def echo(text):
    return {"text": text}
