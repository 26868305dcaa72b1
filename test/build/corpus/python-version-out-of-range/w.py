from svc import Endpoint

@Endpoint(name="w", python_version="3.7")
def w(): ...
