from svc import Endpoint

@Endpoint(name="w", dependencies=["numpy", "torch>=2"])
def w():
    import numpy
    import torch
    return numpy, torch
