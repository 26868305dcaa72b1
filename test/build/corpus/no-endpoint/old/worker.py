from svc import Endpoint
