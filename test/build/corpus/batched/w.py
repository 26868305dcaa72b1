import svc
from svc import Endpoint, batched

SIZE = 32


@Endpoint(name="function")
@svc.batched(max_size=SIZE, wait_ms=2.5)
def function(text: list[str], top: "list[int]" = 3) -> list[dict[str, float]]: ...


@Endpoint(name="model", max_concurrency=8)
class Model:
    @batched(max_size=8)
    async def predict(self, x: list[float], y=None) -> list[int]: ...

    async def plain(self, x: list[float]): ...


api = Endpoint(name="api")


@api.post("/embed")
@svc.batched()
def embed(text: list[str]): ...


@api.get("/health")
def health(): ...
