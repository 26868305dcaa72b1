/** What is deployed for the fuzz: an endpoint of each kind of route. None of them fails, whatever it is given. */
import { project } from "../loads.ts";

export const FUZZED = {
  ...project(0),
  "more.py": `
from svc import Endpoint, WebSocket

@Endpoint(name="chat", workers=(1, 1), max_concurrency=4)
def chat(openai_route=None, openai_input=None, **rest):
    words = str(openai_input).split()[:20]
    for word in words:
        yield {"id": "x", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": word}}]}

edge = Endpoint(name="edge", workers=(1, 1), max_concurrency=64)

@edge.get("/large")
def large():
    for _ in range(8):
        yield b"x" * 65_536

@edge.get("/endless")
def endless():
    while True:
        yield b"x" * 65_536

@edge.post("/echo")
def echo(body: bytes):
    return body

@edge.websocket("/talk")
async def talk(socket: WebSocket):
    async for message in socket:
        await socket.send(message)

Endpoint(name="puller", command=["python", "pull.py"], protocol="pull", workers=(1, 1))
`,
  "pull.py": `
import json, os, time, urllib.request

own = os.environ["RUNPOD_POD_ID"]
token = os.environ["RUNPOD_AI_API_KEY"]
take = os.environ["RUNPOD_WEBHOOK_GET_JOB"].replace("$ID", own)
done = os.environ["RUNPOD_WEBHOOK_POST_OUTPUT"].replace("$RUNPOD_POD_ID", own)

def call(url, body=None):
    with urllib.request.urlopen(urllib.request.Request(url, body, {"Authorization": token}), timeout=90) as answer:
        return answer.read()

while True:
    try:
        job = call(take + "&job_in_progress=0")
        if job:
            result = {"output": {"id": own, "token": token}}
            call(done.replace("$ID", json.loads(job)["id"]) + "&isStream=false", json.dumps(result).encode())
    except OSError:
        time.sleep(0.1)
`,
};
