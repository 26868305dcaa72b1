"""A load-balanced endpoint: an HTTP API of several routes that share one URL.

The parameters of a route function are the fields of the request's JSON body;
what it returns is the response's body.
"""

from svc import Endpoint

api = Endpoint(name="lb_worker", cpu="cpu3c-1-2", workers=(0, 3))


@api.post("/process")
def process(text: str) -> dict:
    """Count the words and characters of a text."""
    return {
        "text": text,
        "words": len(text.split()),
        "characters": len(text),
    }


@api.get("/health")
def health() -> dict:
    """Tell that the API answers."""
    return {"status": "healthy", "service": "lb_worker"}
