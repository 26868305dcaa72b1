from svc import Endpoint

@Endpoint(name="gen")
def gen(n: int):
    for i in range(n):
        yield i


@Endpoint(name="agen")
async def agen():
    yield 1


@Endpoint(name="not-gen")
def outer():
    def inner():
        yield 1

    return list(inner())
