from svc import Endpoint

KEY = "sk-abcdefgh" "ijklmnopqr"

@Endpoint(
    name="w",
    env={"A_TOKEN": "sk-abcdefgh" "ijklmnopqr",
         "MODE": 3,
        "PASSWORD": "qu\"ote\\12345",
    },
    workers=KEY,
)
def w(): ...
