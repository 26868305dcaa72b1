import requests
from svc import Endpoint


@Endpoint(name="a", dependencies=["requests"])
def a(): ...


@Endpoint(name="b")
def b(): ...
