"""A queue-based endpoint on a GPU: one function, called through /run or /runsync.

`GpuGroup.ANY` takes whatever GPU is free. Without one the calls wait in the queue;
`svc platform start --emulate-gpu` runs them on the CPU instead.
"""

from svc import Endpoint, GpuGroup


@Endpoint(name="gpu_worker", gpu=GpuGroup.ANY, workers=(0, 1), idle_timeout=300)
def gpu_info(size: int = 512) -> dict:
    """Multiply two square matrices on the GPU and describe the device.

    List torch in `dependencies` to use it: `dependencies=["torch"]`.
    """
    try:
        import torch
    except ImportError:
        return {"device": "CPU", "reason": "torch is not among the dependencies"}

    device = "cuda" if torch.cuda.is_available() else "cpu"
    product = torch.rand(size, size, device=device) @ torch.rand(size, size, device=device)
    name = torch.cuda.get_device_name(0) if device == "cuda" else "CPU"
    return {"device": name, "size": size, "sum": float(product.sum())}
