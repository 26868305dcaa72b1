import os

from svc import Endpoint, Image, Secret


@Endpoint(
    name="a",
    system_dependencies=["ffmpeg; rm -rf /", "-o Foo", "ffmpeg-", "Ffmpeg", "a b", "lib*", "x=1 -y", "", "--allow", "ffmpeg\nRUN x", 7],
)
def a(): ...


@Endpoint(name="b", system_dependencies="ffmpeg", image=Image.debian("x").apt("ok", "$(id)"))
def b(): ...


@Endpoint(name="c", image=Image.from_registry().run("", os.environ["HOME"]).env(TOKEN=Secret("T"), LINE="a\nENV b"))
def c(): ...


@Endpoint(name="d", image=Image.from_registry("x").copy("y"))
def d(): ...


@Endpoint(name="e", image=7)
def e(): ...
