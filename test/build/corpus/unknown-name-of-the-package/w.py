from svc import CpuInstanceType, Endpoint
from svc import GpuTypes, context, errors


@Endpoint(name="w")
def w(): ...
