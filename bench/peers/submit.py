"""`python submit.py MODULE`: for each number read from stdin so many tasks of the module's queue are submitted, one by one, until none is left;
for `round trips` some, each when the one before is done. Prints one line of JSON each time."""

import importlib
import json
import statistics
import sys
import time

TEXT = "x" * 80
ROUND_TRIPS_MAX = 100
ROUND_TRIPS_S = 3
queue = importlib.import_module(sys.argv[1])


def answer(**fields):
    print(json.dumps(fields), flush=True)


def round_trips(most):
    times = []
    end = time.perf_counter() + ROUND_TRIPS_S
    while len(times) < most and (not times or time.perf_counter() < end):
        started = time.perf_counter()
        queue.round_trip(TEXT)
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


round_trips(20)
answer(ready=True)
for line in sys.stdin:
    if line.strip() == "round trips":
        answer(p50Ms=round_trips(ROUND_TRIPS_MAX))
        continue
    count = int(line)
    done = queue.done()
    started = time.perf_counter()
    queue.submit(count, TEXT)
    submitted = time.perf_counter() - started
    while queue.done() < done + count:
        time.sleep(0.005)
    answer(perSecond=count / (time.perf_counter() - started), submittedPerSecond=count / submitted)
