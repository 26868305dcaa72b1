from svc import Endpoint, Volume


@Endpoint(
    name="w",
    volume=3,
    volumes={
        "models": "a",
        "/proc/x": "a",
        "/usr": "a",
        "/opt/svc/python": "a",
        "/a/../b": "a",
        "/ok": "Not A Name",
        "/size": Volume("b", size_limit="lots"),
        7: "a",
        "/out": "out",
        "/out/inner": "inner",
        "/call": Volume(),
    },
)
def w(): ...


@Endpoint(name="x", volumes=["/models"])
def x(): ...
