from svc import Endpoint

NAME = "first"


@Endpoint(name=NAME)
def a(): ...


NAME = NAME + "-second"


@Endpoint(name=NAME)
def b(): ...
