from svc import Endpoint

api = Endpoint(name="api", workers=(0, 2))


@api.get("/b")
def b(): ...
