from svc import Endpoint

LARGE = (16, 64)


@Endpoint(name="text", cpu="16-64")
def text(): ...


@Endpoint(name="pair", cpu=LARGE)
def pair(): ...


@Endpoint(name="quarter", cpu=(0.25, 1.50))
def quarter(): ...


@Endpoint(name="padded", cpu="04-8.0")
def padded(): ...
