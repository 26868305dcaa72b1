from svc import Endpoint, WebSocket

OPEN = True

whole = Endpoint(name="whole", public=OPEN)
some = Endpoint(name="some")
none = Endpoint(name="none", public=False)


@whole.get("/x", public=True)
def x(): ...


@some.get("/items/{item}", public=True)
def item(item: str): ...


@some.route("POST", "/hook", public=True)
def hook(): ...


@some.websocket("/live", public=True)
async def live(socket: WebSocket): ...


@some.get("/closed", public=False)
def closed(): ...


@none.get("/y")
def y(): ...
