from svc import Endpoint


@Endpoint(name="w")
def w(): ...
