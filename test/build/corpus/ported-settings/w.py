from svc import (
    CpuInstanceType,
    CudaVersion,
    DataCenter,
    Endpoint,
    GpuType,
    NetworkVolume,
    PodTemplate,
    ServerlessScalerType,
)

models = NetworkVolume(name="models", size=50, datacenter=DataCenter.EU_RO_1)
template = PodTemplate(
    name="worker",
    imageName="example.org/worker:1",
    env=[{"key": "MODE", "value": "slow"}, {"key": "LEVEL", "value": "3"}],
    containerDiskInGb=64,
)


@Endpoint(
    "first",
    gpu=GpuType.ANY,
    scaler_type=ServerlessScalerType.REQUEST_COUNT,
    datacenter=[DataCenter.US_GA_2, "EU-RO-1"],
    flashboot=False,
    template=template,
    env={"MODE": "fast"},
    volume=models,
    min_cuda_version=CudaVersion.V12_8,
    accelerate_downloads=True,
    system_dependencies=["ffmpeg"],
)
def first(job: dict): ...


@Endpoint(name="second", cpu=[CpuInstanceType.CPU5C_2_4, "cpu3c-1-2"], flashboot=True, volume=[NetworkVolume("data"), models])
def second(job: dict): ...


@Endpoint(name="third", cpu=CpuInstanceType.CPU3G_2_8, flashboot=True, boot="OFF", template=PodTemplate(env={"A": "1"}))
def third(job: dict): ...


@Endpoint("mounts", volumes={"/models": models, "/data": "data"})
def mounts(): ...
