import os

from svc import Endpoint, Retries


@Endpoint(name="words", retries="often")
def words(): ...


@Endpoint(name="many", retries=Retries(101, delay="2 weeks", backoff=0.5, max_delay=-1, on=("not a name", 3), at=1))
def many(): ...


@Endpoint(name="none", retries=Retries(delay="1s", on=()))
def none(): ...


@Endpoint(name="unknown", retries=int(os.environ["RETRIES"]))
def unknown(): ...


@Endpoint(name="stream", retries=1)
def stream():
    yield 1


api = Endpoint(name="api", retries=1)


@api.get("/")
def get(): ...
