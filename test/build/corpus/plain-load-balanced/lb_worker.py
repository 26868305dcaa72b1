from svc import Endpoint

api = Endpoint(name="api", cpu="cpu3c-1-2", workers=(1, 3))


@api.post("/process")
def process(text: str):
    return {"text": text}


@api.get("/health")
def health():
    return {"status": "ok"}


@api.put("/items/{item_id}")
def put_item(item_id: int, name: str):
    return {}


@api.patch("/items/{item_id}")
def patch_item(item_id: int):
    return {}


@api.delete("/items/{item_id}")
def delete_item(item_id: int):
    return {}


@api.head("/items")
def head_items():
    return None


@api.options("/items")
def options_items():
    return None


@api.route("GET", "/items")
def list_items():
    return []
