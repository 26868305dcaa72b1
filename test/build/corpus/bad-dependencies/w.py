from svc import Endpoint

@Endpoint(name="w", dependencies=["-r requirements.txt", "./local", "six = 1", "x @ https://me:secret@example.org/x.whl", ""])
def w(): ...
