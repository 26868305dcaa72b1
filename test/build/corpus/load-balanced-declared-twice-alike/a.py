from svc import Endpoint

api = Endpoint(name="api", workers=2)


@api.get("/a")
def a(): ...
