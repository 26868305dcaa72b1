import runpod
import svc
from runpod_flash import LoadBalancer
from svc import Endpoint, LiveServerless, remote

config = LiveServerless(name="gpu")


@remote(resource_config=config, dependencies=["torch"])
def Infer(prompt: str): ...


@Endpoint
def bare(): ...


def handler(job): ...


svc.serverless.start({"handler": handler})
if __name__ == "__main__":
    runpod.serverless.start({"handler": handler})
