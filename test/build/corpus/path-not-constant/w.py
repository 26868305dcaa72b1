from svc import Endpoint

api = Endpoint(name="api")
BASE = "/v1"


@api.get(BASE + "/a")
def a(): ...


@api.get(compute())
def b(): ...
