from a import first
from svc import Endpoint


@Endpoint(name="b")
async def second():
    return await first()
