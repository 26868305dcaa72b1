import starlette
from svc import Endpoint

PROGRAM = ["uvicorn", "chat:app"]

Endpoint(
    name="chat",
    command=[*PROGRAM, "--port", "{port}"],
    ready_path="/health",
    ready_timeout=600,
    dependencies=["starlette", "uvicorn"],
)
fixed = Endpoint(name="fixed", command=("serve", "--fast"), port=8000, workers=1)

if fixed:
    Endpoint(name="third", command=["serve"])
