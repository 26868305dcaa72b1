from svc import Endpoint

@Endpoint(name="hello", cpu="cpu5c-4-8", workers=(0, 3), idle_timeout=300, dependencies=["requests"])
async def hello(name: str = "world", *, times: int = 1) -> dict:
    """Say hello.

    Twice if asked.
    """
    return {"message": name * times}
