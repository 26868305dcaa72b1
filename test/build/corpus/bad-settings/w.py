from svc import Endpoint

@Endpoint(
    name="w",
    idle_timeout=4000,
    max_concurrency=0,
    execution_timeout_ms=10,
    scaler_type="QUEUE_DELAI",
    scaler_value=1.5,
    python_version=3.12,
    gpu_count=99,
    boot=True,
    image=3,
)
def w(): ...
