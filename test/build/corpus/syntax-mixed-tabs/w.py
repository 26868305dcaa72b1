from svc import Endpoint


@Endpoint(name="w")
def w(x=1):
        if x:
	return 1
