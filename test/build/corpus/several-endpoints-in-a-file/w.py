from svc import Endpoint, GpuType

api = Endpoint(name="api")


@Endpoint(name="one")
def one(): ...


@Endpoint(name="two", gpu=[GpuType.NVIDIA_L4, GpuType.NVIDIA_GEFORCE_RTX_4090])
def two(): ...


@api.get("/")
def root(): ...
