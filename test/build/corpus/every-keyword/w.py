from svc import Endpoint, GpuGroup


@Endpoint(
    name="all",
    gpu=GpuGroup.AMPERE_16,
    workers=2,
    idle_timeout=600,
    dependencies=["six"],
    max_concurrency=8,
    execution_timeout_ms=5000,
    scaler_type="REQUEST_COUNT",
    scaler_value=7,
    env={"MODE": "fast"},
    image="example.org/worker:1",
    volume="vol-1",
    python_version="3.12",
    gpu_count=2,
    boot="OFF",
)
async def work(): ...
