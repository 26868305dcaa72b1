import os

from svc import Endpoint


@Endpoint(name="queue", public=True)
def queue(): ...


api = Endpoint(name="api", public="yes")


@api.get("/x", public=os.environ.get("OPEN"))
def x(): ...


@api.get("/y", public=len("a") == 1)
def y(): ...


whole = Endpoint(name="whole", public=True)


@whole.get("/z", public=False)
def z(): ...
