from svc import Endpoint


@Endpoint("w")
def w(): ...


@Endpoint("x", "cpu3c-1-2")
def x(): ...


@Endpoint("y", name="z")
def y(): ...
