from pkg import tools
from svc import Endpoint


@Endpoint(name="w", dependencies=["requests"])
def w():
    return tools
