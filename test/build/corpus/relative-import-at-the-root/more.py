from .app import api


@api.get("/b")
def b(): ...
