from svc import Endpoint

LABELS = ["gpu-a100", "rack.1"]


@Endpoint(name="one", hosts="gpu-a100")
def one(): ...


@Endpoint(name="several", hosts=[*LABELS, "gpu-a100", "zone=eu"])
def several(): ...


@Endpoint(name="anywhere", hosts=None)
def anywhere(): ...
