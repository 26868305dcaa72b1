from svc import Endpoint

api = Endpoint(name="shop")


@api.get("/health")
def health(): ...
