import os

import svc
from svc import Endpoint


@Endpoint(name="bare")
@svc.batched
def bare(x): ...


@Endpoint(name="variadic")
@svc.batched()
def variadic(*x): ...


@Endpoint(name="generator")
@svc.batched()
def generator(x):
    yield x


@Endpoint(name="size")
@svc.batched(max_size=int(os.environ["SIZE"]))
def size(x): ...


@Endpoint(name="narrow", max_concurrency=4)
@svc.batched(max_size=8)
def narrow(x): ...
