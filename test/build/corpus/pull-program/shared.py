from svc import Endpoint

decorated = Endpoint(name="decorated", image="example/worker:3")
