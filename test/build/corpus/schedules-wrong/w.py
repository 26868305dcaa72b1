import os

from svc import Endpoint


@Endpoint(name="four", schedule="0 3 * *", timezone="Europe/Berln", missed="all")
def four(): ...


@Endpoint(name="minute", schedule="61 3 * * *")
def minute(): ...


@Endpoint(name="never", schedule="0 0 30 2 *")
def never(): ...


@Endpoint(name="both", schedule="0 3 * * *", every="10ms", overlap="drop")
def both(): ...


@Endpoint(name="zoned", every="10 fortnights", timezone="Europe/Berlin")
def zoned(): ...


@Endpoint(name="alone", schedule_input={"a": 1}, missed="once")
def alone(): ...


@Endpoint(name="input", every="1h", schedule_input={"b": 1, "c": os.environ["C"], 3: 1})
def with_input(a, b): ...


@Endpoint(name="methods", every="1h")
class Methods:
    def one(self): ...

    def two(self): ...


api = Endpoint(name="api", every="1h")


@api.get("/")
def get(): ...
