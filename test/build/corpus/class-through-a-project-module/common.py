from svc import Endpoint as Worker
