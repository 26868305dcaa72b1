from svc import Endpoint

api = Endpoint(name="api")


@api.get("/ping")
def ping(): ...
