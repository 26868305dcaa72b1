import json

import svc
from errors import EXPECTED, Away
from svc import Endpoint, Retries


@Endpoint(name="number", retries=3)
def number(): ...


@Endpoint(name="all", retries=svc.Retries(2, delay=1.5, backoff=1, max_delay="1h", on=EXPECTED))
def all_of_it(): ...


@Endpoint(name="one", retries=Retries(max=1, on=[Away, json.JSONDecodeError]))
def one(): ...
