from svc import Endpoint

import os

@Endpoint(name="w", env={"HF_TOKEN": os.environ["CORPUS_TOKEN"], "MODE": os.getenv("CORPUS_ABSENT", "slow"), "X": os.environ.get("CORPUS_TOKEN")})
def w(): ...
