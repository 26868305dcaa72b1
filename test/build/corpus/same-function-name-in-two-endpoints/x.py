from svc import Endpoint

c = Endpoint(name="c")


@c.get("/health")
def health(): ...
