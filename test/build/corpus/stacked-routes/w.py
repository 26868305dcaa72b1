from svc import Endpoint

api = Endpoint(name="api")


@api.get("/a")
@api.post("/b")
def both(): ...
