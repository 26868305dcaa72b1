from svc import *


@Endpoint(name="w", gpu=GpuGroup.ADA_24)
def w(): ...
