import os

from svc import Endpoint


@Endpoint(name="none", cpu=(0, 64))
def none(): ...


@Endpoint(name="huge", cpu="4096-64")
def huge(): ...


@Endpoint(name="odd", cpu=(1.1, 2))
def odd(): ...


@Endpoint(name="one", cpu=(16,))
def one(): ...


@Endpoint(name="names", cpu=["cpu3c-1-2", 4])
def names(): ...


@Endpoint(name="number", cpu=16)
def number(): ...


@Endpoint(name="units", cpu="16-64GB")
def units(): ...


@Endpoint(name="later", cpu=(len(os.environ), 2))
def later(): ...


@Endpoint(name="negative", cpu="-1-2")
def negative(): ...
