import svc


@svc.Endpoint(name="w")
def w(): ...
