"""Ray Serve with the functions of bench/peers.ts, and one more that goes to no replica when nobody calls it: `python ray_calls.py PORT`."""

import signal
import sys

import numpy as np
import ray
from ray import serve

WEIGHTS = np.random.default_rng(1).random((1024, 1024), dtype=np.float32)
# As soon as it can be told to.
TO_ZERO = {
    "min_replicas": 0,
    "initial_replicas": 0,
    "max_replicas": 1,
    "downscale_delay_s": 1,
    "downscale_to_zero_delay_s": 1,
    "look_back_period_s": 1,
    "metrics_interval_s": 0.5,
}


@serve.deployment(num_replicas=1, max_ongoing_requests=100)
class Echo:
    async def __call__(self, request):
        return {"text": (await request.json())["text"]}


@serve.deployment(num_replicas=1, max_ongoing_requests=100)
class Product:
    async def __call__(self, request):
        n = (await request.json())["n"]
        return float((np.full(1024, n, dtype=np.float32) @ WEIGHTS).sum())


@serve.deployment(autoscaling_config=TO_ZERO)
class Cold:
    async def __call__(self, request):
        return {"text": (await request.json())["text"]}


if __name__ == "__main__":
    ray.init(num_cpus=4, include_dashboard=False, logging_level="error", log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
    for app in (Echo, Product, Cold):
        serve.run(app.bind(), name=app.name, route_prefix=f"/{app.name.lower()}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.pause()
