from svc import Endpoint

@Endpoint(name="w", cpu="cpu5-4-8")
def w(): ...
