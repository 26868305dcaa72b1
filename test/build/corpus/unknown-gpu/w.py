from svc import Endpoint, GpuGroup, GpuType


@Endpoint(name="a", gpu=GpuType.NVIDIA_A100_80GB)
def a(): ...


@Endpoint(name="b", gpu=[GpuGroup.ADA_25, "L4"])
def b(): ...
