from svc import Endpoint

@Endpoint("w")
def w(): ...
