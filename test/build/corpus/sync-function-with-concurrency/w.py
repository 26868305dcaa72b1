from svc import Endpoint

@Endpoint(name="a", max_concurrency=4)
def a(): ...


@Endpoint(name="b", max_concurrency=4)
async def b(): ...
