from svc import Endpoint

api = Endpoint(name="api")


@api.get("health")
def a(): ...


@api.get("/x?y=1")
def b(): ...


@api.get()
def c(): ...


@api.get("/items/{item id}")
def d(): ...


@api.get("/things/{missing}")
def e(): ...


@api.get("/open/{")
def f(): ...
