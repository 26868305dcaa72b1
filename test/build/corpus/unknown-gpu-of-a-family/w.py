from svc import Endpoint, GpuType


@Endpoint(name="w", gpu=GpuType.NVIDIA_A100)
def w(): ...
