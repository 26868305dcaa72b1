import os

import svc
from svc import Endpoint


@Endpoint("model")
class Model:
    size: str = svc.option("small", choices=["small", "large"])
    gpu = svc.option("x")
    empty = svc.option()
    odd = svc.option(os.environ["HOME"], choices="abc")

    def predict(self): ...


Unknown = Model.with_options(sise="large")
Huge = Model.with_options(size="huge")
Computed = Model.with_options(empty=len("a"))
Twice = Huge.with_options(size="large")
Unnamed = Model.with_options(workers=1)
Same = Model.with_options(size="small", empty=1)
Again = Model.with_options(empty=1, size="small")


class Bare:
    pass


Wrong = svc.with_options(Bare, size="x")


@Endpoint("none")
class NoOptions:
    def run(self): ...


None1 = NoOptions.with_options(depth=3, name="none-3")


def later():
    return Model.with_options(size="large")
