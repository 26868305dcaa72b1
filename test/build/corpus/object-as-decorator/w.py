from svc import Endpoint

worker = Endpoint(name="w")


@worker
def run(): ...
