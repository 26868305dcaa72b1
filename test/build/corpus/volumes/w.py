from svc import Endpoint, Volume

WEIGHTS = Volume("weights", size_limit="100GB", read_only=True)


@Endpoint(name="several", volume=Volume("models"), volumes={"/mnt/weights": WEIGHTS, "/out/": "out"})
def several(): ...


@Endpoint(name="one", volume=Volume(name="models", read_only=False, size_limit=None))
def one(): ...
