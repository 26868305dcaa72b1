from svc import Endpoint

@Endpoint(name="same")
def b(): ...
