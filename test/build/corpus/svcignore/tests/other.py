from svc import Endpoint

@Endpoint(name="never")
def never(): ...
