from svc import Endpoint

@Endpoint(name="My/Worker")
def w(): ...
