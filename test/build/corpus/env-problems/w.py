from svc import Endpoint

import os


@Endpoint(name="w", env={"A": os.environ["CORPUS_ABSENT"], "B": 1, "C": make(), "D-E": "x"})
def w(): ...


@Endpoint(name="v", env=["A"])
def v(): ...
