import os

from svc import Endpoint

STAGE = "test"
DEBUG = STAGE != "production"
LEVELS = ["low", "high"]
EXTRA = {"EXTRA": "1"} if DEBUG and not STAGE == "x" else {}


@Endpoint(
    "folded",
    env={
        "MODE": "slow" if DEBUG else "fast",
        "STAGE": STAGE or "production",
        "KNOWN": "yes" if "high" in LEVELS and len("a") > 0 else "no",
        **EXTRA,
        **({"MORE": "1"} if 1 < 2 <= 2 and STAGE is not None else {}),
    },
)
def folded(): ...


@Endpoint("decided", env={"KNOWN": "yes" if "high" in LEVELS else "no", **EXTRA, "MODE": "slow" if DEBUG else "fast"})
def decided(): ...


@Endpoint("machine", env={"A": "1"} if os.environ.get("CORPUS_TOKEN") else {"B": "2"})
def machine(): ...


@Endpoint("value", env={"TOKEN": os.environ["CORPUS_TOKEN"] or "none"})
def value(): ...


if DEBUG:
    SETTINGS = {"A": "1"}
else:
    SETTINGS = {}


@Endpoint("statement", env=SETTINGS)
def statement(): ...
