from svc import Endpoint

ALL = [Endpoint(name="listed")]
lonely = Endpoint(name="lonely")


@Endpoint(name="w")
def w(): ...
