from svc import Endpoint

api = Endpoint(name="b!")


@api.get("/ping")
def ping(): ...
