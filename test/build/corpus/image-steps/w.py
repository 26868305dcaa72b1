import svc
from svc import Endpoint, Image

PACKAGES = ["libgl1", "g++"]
BASE = svc.Image.from_registry("python:3.12-slim").apt("ffmpeg", *PACKAGES)
VARIABLES = {"B": "2"}


@Endpoint(name="built", image=BASE.run("make " + "install", "true").env(A="1", **VARIABLES))
def built(): ...


@Endpoint(name="own", image=Image.debian(), system_dependencies=["git=1:2.39.5-0+deb12u2", "libstdc++6"])
def own(): ...
