from svc import Endpoint


@Endpoint(name="w", workers=(0, 3)
def w(): ...
