import svc as s


@s.Endpoint(name="w", gpu=s.GpuType.NVIDIA_A100_80GB_PCIe)
def w(): ...
