import os

from svc import Endpoint

Endpoint(name="a", command="uvicorn app:app", ready_path="health")
Endpoint(name="b", command=[], port=80, workers=1)
Endpoint(name="c", command=["serve", 8000], ready_timeout=0)
Endpoint(name="d", command=["serve"], port=8000)
Endpoint(name="e", command=["serve", os.environ["HOME"]], port="8000", ready_path=1)
Endpoint(name="f", command=["serve"], port=0)

mixed = Endpoint(name="mixed", command=["serve"])


@mixed.get("/x")
def x(): ...


@Endpoint(name="job", ready_path="/x")
def job(): ...


def inside():
    Endpoint(name="inside", command=["serve"])
