from b import NAME
from svc import Endpoint


@Endpoint(name=NAME)
def w(): ...
