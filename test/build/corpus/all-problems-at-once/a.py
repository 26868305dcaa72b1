from svc import Endpoint

@Endpoint(name="A", cpu="nope", workers=(2, 1), bogus=1)
def a(): ...
