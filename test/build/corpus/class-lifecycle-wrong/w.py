from svc import Endpoint, enter, exit


@enter
def load(): ...


@Endpoint(name="model")
class Model:
    @enter
    def connect(self, url): ...

    @enter
    def open(self):
        yield

    @enter(shared=True)
    async def fetch(self): ...

    @exit
    async def close(self): ...

    def predict(self, text: str):
        @exit
        def inside(): ...
