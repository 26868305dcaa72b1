"""For each number read from stdin: submits so many tasks, waits until the last is acknowledged, prints one line of JSON."""

import json
import os
import statistics
import sys
import time

import redis
from celery_app import app, echo

TEXT = "x" * 80
broker = redis.Redis.from_url(os.environ["BENCH_REDIS"])


def wait_until_done():
    while broker.llen("celery") > 0 or broker.hlen("unacked") > 0:
        time.sleep(0.005)


def round_trips(count):
    times = []
    for _ in range(count):
        started = time.perf_counter()
        echo.delay(TEXT).get(timeout=60, interval=0.0005)
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


round_trips(20)
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    count = int(line)
    started = time.perf_counter()
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(count):
            echo.apply_async((TEXT,), producer=producer)
    submitted = time.perf_counter() - started
    wait_until_done()
    seconds = time.perf_counter() - started
    print(json.dumps({"perSecond": count / seconds, "submittedPerSecond": count / submitted, "p50Ms": round_trips(200)}), flush=True)
