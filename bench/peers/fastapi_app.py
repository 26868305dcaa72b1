"""What a developer writes by hand: FastAPI, no authentication, no queue."""

from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()


class Text(BaseModel):
    text: str


@app.post("/echo")
def echo(body: Text) -> dict:
    return {"text": body.text}


@app.post("/echo-async")
async def echo_async(body: Text) -> dict:
    return {"text": body.text}
