from svc import Endpoint

@Endpoint(name="deep")
def deep(): ...
