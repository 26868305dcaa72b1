/** A program that pulls its jobs: it adds one, and says `words`, a Python expression. */
export const puller = (words: string) => `
import json, os, urllib.request

def ask(url, body=None):
    headers = {"Authorization": os.environ["RUNPOD_AI_API_KEY"], "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data=data, headers=headers), timeout=120) as answer:
        return json.loads(answer.read() or "null")

own = os.environ["RUNPOD_POD_ID"]
while True:
    job = ask(os.environ["RUNPOD_WEBHOOK_GET_JOB"].replace("$ID", own))
    if job:
        url = os.environ["RUNPOD_WEBHOOK_POST_OUTPUT"].replace("$RUNPOD_POD_ID", own).replace("$ID", job["id"])
        ask(url, {"output": {"n": job["input"]["n"] + 1, "words": ${words}}})
`;
