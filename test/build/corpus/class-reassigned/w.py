from svc import Endpoint

Job = Endpoint


@Job(name="w")
def w(): ...
