from svc import Endpoint


async def app(scope, receive, send):
    pass


Endpoint(name="plain").asgi(app)

api = Endpoint(name="mixed", cors=["https://Example.com", "http://localhost:3000"], request_timeout_ms=5000)
api.asgi(app)


@api.get("/health")
def health():
    return "ok"
