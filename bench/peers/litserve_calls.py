"""LitServe with the functions of bench/peers.ts: `python litserve_calls.py PORT`."""

import sys

import litserve as ls
import numpy as np

WEIGHTS = np.random.default_rng(1).random((1024, 1024), dtype=np.float32)


class Echo(ls.LitAPI):
    def setup(self, device):
        pass

    def decode_request(self, request):
        return request["text"]

    def predict(self, text):
        return {"text": text}

    def encode_response(self, output):
        return output


class Product(ls.LitAPI):
    def setup(self, device):
        pass

    def decode_request(self, request):
        return request["n"]

    def predict(self, n):
        return float((np.full(1024, n, dtype=np.float32) @ WEIGHTS).sum())

    def encode_response(self, output):
        return output


if __name__ == "__main__":
    apis = [Echo(api_path="/echo"), Product(api_path="/product")]
    server = ls.LitServer(apis, accelerator="cpu", workers_per_device=1)
    server.run(host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", generate_client_file=False)
