from svc import Endpoint

from shared import decorated

Endpoint(name="program", command=["python", "worker.py"], protocol="pull")
kept = Endpoint(name="image", image="example/worker:1")
Endpoint(name="bare-image", image="example/worker:2", protocol="pull")
plain = Endpoint(name="server", command=["serve"], protocol="http")


@decorated
def work(n: int): ...
