from svc import Endpoint

@Endpoint(name="w", workers=(3, 1))
def w(): ...
