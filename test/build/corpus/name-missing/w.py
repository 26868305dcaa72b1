from svc import Endpoint

@Endpoint(cpu="cpu3c-1-2")
def w(): ...


@Endpoint
def x(): ...


@Endpoint(name=None)
def y(): ...
