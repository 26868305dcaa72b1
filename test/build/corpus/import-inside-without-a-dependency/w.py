from svc import Endpoint

@Endpoint(name="w", dependencies=["six"])
def w():
    import json
    import helper
    import six
    from bs4 import BeautifulSoup
    return json, helper, six, BeautifulSoup


@Endpoint(name="v")
class V:
    def run(self):
        try:
            import orjson
        except ImportError:
            orjson = None
        import pandas
        return pandas, orjson
