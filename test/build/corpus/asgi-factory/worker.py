from svc import Endpoint

api = Endpoint(name="api", dependencies=["fastapi"], max_concurrency=20, cors="*")


@api.asgi
def app():
    from fastapi import FastAPI

    return FastAPI()


bad = Endpoint(name="bad", cors=["example.com", "https://example.com/path"])


@bad.get("/")
def root():
    return {}
