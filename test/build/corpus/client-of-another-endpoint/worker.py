import svc
from svc import Endpoint

other = Endpoint(id="ep-1")


@Endpoint(name="caller")
def caller(x: int):
    third = svc.Endpoint(id="ep-3", api_key="k")
    return other.runsync({"x": third.get("/x")})
