from svc import Endpoint

from shop.app import make

api = Endpoint(name="api", dependencies=["fastapi"])


@api.asgi
def app():
    return make()


@api.get("/ping")
def own(): ...
