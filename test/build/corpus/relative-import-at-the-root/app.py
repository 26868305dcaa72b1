from svc import Endpoint

api = Endpoint(name="api")


@api.get("/a")
def a(): ...
