from svc import Endpoint


@Endpoint
def x(): ...
