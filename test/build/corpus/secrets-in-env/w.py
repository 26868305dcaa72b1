from svc import Endpoint

@Endpoint(
    name="w",
    env={
        "API_KEY": "q8Zr4kTn0pWx",
        "MODEL": "hf_abcdefghijklmnopqrstuv",
        "URL": "postgres://me:pa55@db.example.org/x",
        "TOKEN_LIMIT": "4096",
        "HF_HOME": "/data/huggingface",
        "SECRET_NAME": "<your secret>",
        "MODE": "fast",
    },
)
def w(): ...
