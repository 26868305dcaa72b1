from svc import Endpoint

@Endpoint(name="x")
def x(): ...
