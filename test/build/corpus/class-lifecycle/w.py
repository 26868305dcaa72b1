import os

import svc
from svc import Endpoint, exit as ends


@Endpoint(name="model")
class Model:
    @svc.enter(shared=True)
    def load(self): ...

    if os.environ.get("DATABASE"):

        @svc.enter()
        def connect(self): ...

    def predict(self, text: str): ...

    @ends
    def close(self): ...


@Endpoint(name="later")
class Later:
    @svc.enter
    async def connect(self): ...

    async def predict(self, text: str): ...
