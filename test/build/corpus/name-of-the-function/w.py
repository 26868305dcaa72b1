from svc import Endpoint


@Endpoint()
def resize_image(url: str): ...


@Endpoint(cpu="cpu3c-1-2", name=None)
class SimpleModel:
    def predict(self, text: str): ...


settings = Endpoint(idle_timeout=5)


@settings
async def _hidden(): ...


api = Endpoint(cpu="cpu3c-1-2")


@api.get("/")
def root(): ...
