from svc import Endpoint, WebSocket

api = Endpoint(name="api")


@api.websocket("/chat/{room}")
async def chat(socket: WebSocket, room: str):
    pass


@api.websocket("/sync")
def sync(socket: WebSocket):
    pass


@api.websocket("/nothing")
async def nothing():
    pass
