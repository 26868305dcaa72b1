"""LitServe with the function of bench/batching.ts, batched alike: `python litserve_app.py PORT`."""

import sys

import litserve as ls
import numpy as np

WEIGHTS = np.random.default_rng(1).random((1024, 1024), dtype=np.float32)


class Product(ls.LitAPI):
    def setup(self, device):
        pass

    def decode_request(self, request):
        return request["n"]

    def predict(self, n):
        inputs = np.repeat(np.asarray(n, dtype=np.float32)[:, None], 1024, axis=1)
        return (inputs @ WEIGHTS).sum(axis=1).tolist()

    def encode_response(self, output):
        return output


if __name__ == "__main__":
    api = Product(max_batch_size=16, batch_timeout=0.005)
    server = ls.LitServer(api, accelerator="cpu", workers_per_device=1)
    server.run(host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", generate_client_file=False)
