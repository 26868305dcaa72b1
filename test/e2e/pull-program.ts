/** A program that pulls jobs, as an endpoint has it that is a command or an image of its own. */
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import type { TestContext } from "node:test";
import { pack } from "tar-stream";
import type { TestDocker } from "../docker.ts";
import { OWN_PID } from "../host-pid.ts";

/** Standard library only: asks for jobs, gives signs of life, ends on SIGTERM when it has finished what it has. */
export const PULL_PROGRAM = `
import json, os, signal, sys, threading, time, urllib.error, urllib.request

own = os.environ["RUNPOD_POD_ID"]
headers = {"Authorization": os.environ["RUNPOD_AI_API_KEY"], "Content-Type": "application/x-www-form-urlencoded"}
take = os.environ["RUNPOD_WEBHOOK_GET_JOB"].replace("$ID", own)
done = os.environ["RUNPOD_WEBHOOK_POST_OUTPUT"].replace("$RUNPOD_POD_ID", own)
alive = os.environ["RUNPOD_WEBHOOK_PING"].replace("$RUNPOD_POD_ID", own)
state = {"job": "", "leaves": False}

def call(url, body=None):
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=90) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            if error.code != 429: raise
            time.sleep(0.2)
        except OSError:
            time.sleep(0.2)

def pings():
    while True:
        call(alive + (f"&job_id={state['job']}" if state["job"] else ""))
        time.sleep(1)

def leave(*_):
    state["leaves"] = True

def handle(given):
    if "tell" in given:
        with open(given["tell"], "w") as file: file.write(${OWN_PID})
    if "wait" in given:
        while not os.path.exists(given["wait"]): time.sleep(0.05)
    if "exit" in given: os._exit(given["exit"])
    return {"pid": ${OWN_PID}, "mode": os.environ.get("MODE"), "in_project": os.path.exists("main.py")}

if os.environ.get("BROKEN"): sys.exit("it cannot begin: no weights")
signal.signal(signal.SIGTERM, leave)
threading.Thread(target=pings, daemon=True).start()
while not state["leaves"]:
    status, body = call(take + f"&job_in_progress={1 if state['job'] else 0}")
    if status == 204: continue
    job = json.loads(body)
    state["job"] = job["id"]
    print(json.dumps({"requestId": job["id"], "message": "Started.", "level": "INFO"}), flush=True)
    result = {"output": handle(job["input"])}
    call(done.replace("$ID", job["id"]) + "&isStream=false", json.dumps(result).encode())
    state["job"] = ""
print("has left", flush=True)
`;

/** An image as people have it: a program of its own, its own entrypoint, and nothing of ours. Resolves its name. */
export async function imageOfProgram(t: TestContext, docker: TestDocker): Promise<string> {
  const name = `svc-test-pull-${process.pid}:1`;
  const packed = pack();
  packed.entry({ name: "worker.py" }, PULL_PROGRAM);
  packed.entry(
    { name: "Dockerfile" },
    `FROM ${docker.image}\nCOPY worker.py main.py /app/\nWORKDIR /app\nENV MODE=image\nENTRYPOINT ["python3"]\nCMD ["worker.py"]\n`,
  );
  packed.entry({ name: "main.py" }, "");
  packed.finalize();
  const stream = await docker.engine.buildImage(Readable.from([await buffer(packed)]), { t: name });
  await new Promise<void>((resolve, reject) => {
    docker.engine.modem.followProgress(stream, (error) => (error ? reject(error) : resolve()));
  });
  t.after(() => docker.engine.getImage(name).remove({ force: true }));
  return name;
}
