from svc import Endpoint

a = Endpoint(name="a")
b = Endpoint(name="b")


@a.get("/health")
def health(): ...


@b.get("/health")
def health(): ...
