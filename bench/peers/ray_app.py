"""Ray Serve with the function of bench/batching.ts, batched alike: `python ray_app.py PORT`."""

import signal
import sys

import numpy as np
import ray
from ray import serve

WEIGHTS = np.random.default_rng(1).random((1024, 1024), dtype=np.float32)


@serve.deployment(num_replicas=1, max_ongoing_requests=100)
class Product:
    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.005)
    async def predict(self, n):
        inputs = np.repeat(np.asarray(n, dtype=np.float32)[:, None], 1024, axis=1)
        return (inputs @ WEIGHTS).sum(axis=1).tolist()

    async def __call__(self, request):
        return await self.predict((await request.json())["n"])


if __name__ == "__main__":
    ray.init(num_cpus=4, include_dashboard=False, logging_level="error", log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
    serve.run(Product.bind(), route_prefix="/predict")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.pause()
