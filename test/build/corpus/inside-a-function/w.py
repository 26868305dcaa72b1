from svc import Endpoint

def make():
    @Endpoint(name="w")
    def w(): ...

    return w


class Group:
    @Endpoint(name="m")
    def method(self): ...
