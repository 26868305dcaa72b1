from svc import Endpoint

PREFIX = "he"
NAME = f"{PREFIX}llo-{2}"
BASE = ["six"]
DEPS = [*BASE, "requests" ">=2"] + ["pyyaml"]
DEPS += ["attrs"]
WORKERS = (1, 2 * 2)
MINUTE = 60
ENV = {"A": "1", **{"B": "2"}}


class Config:
    CPU = "cpu3g-1-4"


SETTINGS = dict(idle_timeout=5 * MINUTE)


@Endpoint(name=NAME, dependencies=DEPS, workers=WORKERS, env=ENV, cpu=Config.CPU, **SETTINGS)
def w(): ...
