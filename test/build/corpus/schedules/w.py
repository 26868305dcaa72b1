from svc import Endpoint

ZONE = "Europe/Berlin"


@Endpoint(name="nightly", schedule="0 3 * * *", timezone=ZONE, schedule_input={"days": [1, 2.5, None], "deep": {"on": True}})
def nightly(days, deep=None): ...


@Endpoint(name="often", every=90, missed="once", overlap="skip")
def often(n: int = 1): ...


@Endpoint(name="model", schedule="@daily")
class Model:
    def predict(self): ...
