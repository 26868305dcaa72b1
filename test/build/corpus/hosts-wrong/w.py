from svc import Endpoint


@Endpoint(name="number", hosts=3)
def number(): ...


@Endpoint(name="none", hosts=[])
def none(): ...


@Endpoint(name="spaces", hosts=["gpu-a100", "rack 1"])
def spaces(): ...


@Endpoint(name="comma", hosts="gpu-a100,rack.1")
def comma(): ...
