from svc import Endpoint

api = Endpoint(name="api", workers=3)


@api.get("/b")
def b(): ...
