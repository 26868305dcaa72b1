from .app import api


@api.post("/orders")
def create(item: str): ...
