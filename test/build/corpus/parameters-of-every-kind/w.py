from svc import Endpoint

@Endpoint(name="w")
def w(a, b: "list[str]", /, c=None, *rest: int, d: dict[str, int] = {}, **more): ...
