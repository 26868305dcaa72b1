from svc import Endpoint

import sys

if sys.version_info >= (3, 10):

    @Endpoint(name="w")
    def w(): ...
