"""Serves the application of units.py, unchanged."""

from svc import Endpoint

api = Endpoint(name="units", cpu="cpu3c-1-2", workers=(0, 2), max_concurrency=50, dependencies=["fastapi"])


@api.asgi
def app():
    from units import app

    return app
