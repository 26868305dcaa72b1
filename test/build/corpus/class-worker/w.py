from svc import Endpoint

@Endpoint(name="model")
class Model:
    """A model."""

    def __init__(self):
        self.ready = True

    @property
    def size(self):
        return 1

    def predict(self, text: str, top: int = 3) -> dict:
        yield text

    async def embed(self, text: str): ...

    def _hidden(self): ...


@Endpoint(name="single")
class Single:
    def run(self, text: str): ...
