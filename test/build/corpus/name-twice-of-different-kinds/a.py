from svc import Endpoint

@Endpoint(name="same")
def a(): ...


api = Endpoint(name="same")


@api.get("/")
def b(): ...
