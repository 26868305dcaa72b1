import os
import requests
from svc import Endpoint


@Endpoint(name="w", dependencies=["requests"])
def w():
    return requests.get("https://example.org").status_code
