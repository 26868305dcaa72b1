from svc import Endpoint as E, GpuGroup as G


@E(name="w", gpu=[G.ANY])
def w(): ...
