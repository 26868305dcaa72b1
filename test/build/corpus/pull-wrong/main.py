from svc import Endpoint

Endpoint(name="a", command=["python", "worker.py"], protocol="push")
Endpoint(name="b", command=["python", "worker.py"], protocol="pull", port=8000, workers=1)
Endpoint(name="c", command=["python", "worker.py"], protocol="pull", ready_timeout=5)
Endpoint(command=["python", "worker.py"], protocol="pull")


@Endpoint(name="d", protocol="pull")
def work(): ...
