from svc import Endpoint

@Endpoint(name="a")
def first(): ...
