from svc import Endpoint

@Endpoint(name="a", workers=(1, 2, 3))
def a(): ...


@Endpoint(name="b", workers=-1)
def b(): ...


@Endpoint(name="c", workers="3")
def c(): ...
