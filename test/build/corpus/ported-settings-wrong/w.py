from svc import CpuInstanceType, Endpoint, NetworkVolume, ServerlessScalerType


@Endpoint("fourth", cpu=CpuInstanceType.CPU9_1_2, flashboot="on", template="t")
def fourth(): ...


@Endpoint("fifth", scaler_type=ServerlessScalerType.NONE, volume=NetworkVolume(size=1), cpu=["cpu3c-1-2", "cpu9-1-2"])
def fifth(): ...


@Endpoint("sixth", volume=NetworkVolume("My models"), cpu=[])
def sixth(): ...
