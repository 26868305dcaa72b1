import svc
from svc import Endpoint, Secret

NAME = "HF_" + "TOKEN"

@Endpoint(name="a", env={"MODE": "fast", "TOKEN": Secret(NAME), "OTHER": svc.Secret(name="db.password")})
def a(): ...
