from svc import Endpoint

api = Endpoint(name="api")


@api.get("/a")
def handler(): ...


@api.get("/b")
def handler(): ...
