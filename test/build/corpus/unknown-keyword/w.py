from svc import Endpoint

@Endpoint(name="w", max_workers=3, idle_timout=4)
def w(): ...
