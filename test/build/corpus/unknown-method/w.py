from svc import Endpoint

api = Endpoint(name="api")


@api.gett("/a")
def a(): ...
