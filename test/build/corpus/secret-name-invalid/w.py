from svc import Endpoint, Secret

@Endpoint(name="b", env={"TOKEN": Secret("1 bad"), "OTHER": Secret()})
def b(): ...
