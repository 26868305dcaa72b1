from svc import Endpoint

import os

DEPS = [line for line in open("requirements.txt")]
MORE = ["six"]
MORE.append("attrs")
if os.name == "posix":
    COND = ["six"]


@Endpoint(name="a", dependencies=DEPS)
def a(): ...


@Endpoint(name="b", dependencies=MORE)
def b(): ...


@Endpoint(name="c", dependencies=COND)
def c(): ...


@Endpoint(name="d", dependencies=load())
def d(): ...


@Endpoint(name="e", dependencies="six")
def e(): ...
