try:
    from svc import Endpoint
except ImportError:
    Endpoint = None


@Endpoint(name="w")
def w(): ...
