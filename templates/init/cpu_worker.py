"""A queue-based endpoint on a CPU: one function, called through /run or /runsync.

The `input` object of a call holds the function's arguments by name. Calls wait in
a durable queue until a worker is free, and workers come and go with the load.
"""

from svc import Endpoint


@Endpoint(name="cpu_worker", cpu="cpu3c-1-2", workers=(0, 3), idle_timeout=60)
def summarize(numbers: list[float]) -> dict:
    """Return the basic statistics of a list of numbers."""
    # Import inside the function: the module is needed where the function runs.
    import statistics

    if not numbers:
        raise ValueError("numbers must not be empty")
    return {
        "count": len(numbers),
        "mean": statistics.fmean(numbers),
        "median": statistics.median(numbers),
        "stdev": statistics.pstdev(numbers),
    }
