from svc import Endpoint

@Endpoint(name="flat")
def flat(): ...
