class Away(Exception):
    pass


EXPECTED = (Away, ConnectionError, "requests.exceptions.Timeout")
