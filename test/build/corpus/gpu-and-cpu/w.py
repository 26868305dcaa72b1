from svc import Endpoint, GpuGroup


@Endpoint(name="w", gpu=GpuGroup.ANY, cpu="cpu3c-1-2")
def w(): ...
