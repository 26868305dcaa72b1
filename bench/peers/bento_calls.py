"""BentoML with the functions of bench/peers.ts."""

import bentoml
import numpy as np

WEIGHTS = np.random.default_rng(1).random((1024, 1024), dtype=np.float32)


@bentoml.service(workers=1)
class Calls:
    @bentoml.api
    def echo(self, text: str) -> dict:
        return {"text": text}

    @bentoml.api
    def product(self, n: float) -> float:
        return float((np.full(1024, n, dtype=np.float32) @ WEIGHTS).sum())
