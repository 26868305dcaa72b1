from svc import Endpoint

import functools


def traced(f):
    return f


@Endpoint(name="w")
@traced
@functools.cache
def w(): ...
