from svc import CpuInstance, Endpoint
from svc import GpuTypes, context, errors


@Endpoint(name="w")
def w(): ...
