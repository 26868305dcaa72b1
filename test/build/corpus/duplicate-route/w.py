from svc import Endpoint

api = Endpoint(name="api")


@api.get("/items/{a}")
def one(a): ...


@api.get("/items/{b}")
def two(b): ...


@api.post("/items/{b}")
def three(b): ...
