import svc
from svc import Endpoint, GpuGroup


class Base:
    layers = svc.option(12)


@Endpoint("model", cpu="cpu3c-1-2", workers=(0, 2), env={"MODE": "fast"})
class Model(Base):
    size: str = svc.option("small", choices=["small", "large"])
    quantized: bool = svc.option(False)

    def predict(self, text: str) -> str:
        return self.size


Large = Model.with_options(size="large", gpu=GpuGroup.ADA_80_PRO)
svc.with_options(Model, quantized=True, layers=24, workers=(1, 1))


@Endpoint()
class Plain:
    def run(self): ...


Other = Plain.with_options(name="other", idle_timeout=5)
