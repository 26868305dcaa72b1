/**
 * Callers send their keys to the platform's port: no worker of its machine listens there, neither beside the platform, nor in its place
 * after a crash, nor where "localhost" leads to besides.
 */
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { project, startPlatform, type TestPlatform } from "../e2e/platform.ts";
import { startPlatformProcess } from "../e2e/platform-process.ts";
import { eventually } from "../eventually.ts";

const IN_USE = "Address already in use";

const ATTACKER = `
import ctypes, errno, os, socket
from svc import Endpoint

FAMILIES = {"127.0.0.1": socket.AF_INET, "0.0.0.0": socket.AF_INET, "::1": socket.AF_INET6}

def listen(host, port, shares):
    """Why it cannot; "done" when it could."""
    listening = socket.socket(FAMILIES[host])
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind((host, port))
        listening.listen()
        return "done"
    except OSError as error:
        return error.strerror
    finally:
        listening.close()

@Endpoint(name="bad", workers=(0, 1))
def bad(how, **arguments):
    return globals()[how](**arguments)

@Endpoint(name="patient", workers=(0, 1))
def patient(port, found, over):
    """Tries on and on, until it listens or is told that it is over."""
    while not os.path.exists(over):
        with open(found, "a") as file:
            file.write("tried ")
        for host in ("127.0.0.1", "0.0.0.0", "::1"):
            for shares in (False, True):
                if listen(host, port, shares) == "done":
                    with open(found, "a") as file:
                        file.write(f"listened at {host} {shares}")
                    return

def ring():
    libc = ctypes.CDLL(None, use_errno=True)
    made = libc.syscall(425, 8, ctypes.create_string_buffer(256))
    return "done" if made >= 0 else errno.errorcode[ctypes.get_errno()]

def usual():
    """What servers do as a matter of course."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        return listening.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT)
`;

async function attacked(t: TestContext, env: Record<string, string> = {}) {
  const platform = await startPlatform(t, env);
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "main.py": ATTACKER }) });
  assert.equal(deploy.code, 0, deploy.stderr + deploy.stdout);
  const urls = new Map((await platform.endpoints()).map(({ name, url }) => [name, url]));
  const bad = async (how: string, more: object = {}) => {
    const { json, text } = await platform.call(`${urls.get("bad")}/runsync`, { body: { input: { how, ...more } } });
    assert.equal(json.status, "COMPLETED", text);
    return json.output;
  };
  return { platform, bad, port: portOf(platform), patient: `${urls.get("patient")}/run` };
}

function portOf({ url }: Pick<TestPlatform, "url">): number {
  return Number(new URL(url).port);
}

test("no worker listens beside the platform, and programs that would share ports do not fail", async (t) => {
  for (const gateways of ["0", "1"]) {
    const { bad, port } = await attacked(t, { SVC_GATEWAYS: gateways });
    for (const host of ["127.0.0.1", "0.0.0.0", "::1"]) {
      for (const shares of [false, true]) {
        const told = await bad("listen", { host, port, shares });
        assert.equal(told, IN_USE, `${gateways} gateways, ${host}${shares ? ", shared" : ""}`);
      }
    }
    // Users of their own may share ports with themselves.
    const isOwnUser = process.getuid?.() !== 0;
    assert.equal(await bad("usual"), isOwnUser ? 0 : 1);
    if (isOwnUser) assert.equal(await bad("ring"), "ENOSYS");
  }
});

test("after a crash no worker listens in the platform's place, and the platform comes back to it", async (t) => {
  const { platform, bad, port, patient } = await attacked(t);
  const found = path.join(platform.shared, "found");
  const over = path.join(platform.shared, "over");
  const { json } = await platform.call(patient, { body: { input: { port, found, over } } });
  const tries = () => (existsSync(found) ? readFileSync(found, "utf8") : "");
  const triesOn = () => {
    const before = tries().length;
    return eventually(() => assert.ok(tries().length > before + 100, JSON.stringify(json)));
  };
  await triesOn();
  await platform.kill();
  await triesOn();
  assert.equal(portOf(await platform.restart()), port);
  await triesOn();
  writeFileSync(over, "");
  assert.doesNotMatch(tries(), /listened/);
  assert.equal(await bad("listen", { host: "::1", port, shares: false }), IN_USE);
});

test("a port that another platform or program has is in use, also beside what the launcher of a killed platform holds", async (t) => {
  const { platform, port } = await attacked(t, { SVC_GATEWAYS: "1" });
  const start = async () => {
    const env = { PATH: process.env.PATH, HOME: process.env.HOME };
    const dataDir = path.join(platform.dir, "second");
    const other = await startPlatformProcess({ dataDir, env, port: String(port) });
    await other.end("SIGQUIT");
  };
  await assert.rejects(start(), /PORT_IN_USE/);
  await platform.kill();
  // Held by its launcher: a platform of the same user may have it.
  await start();
  const back = await platform.restart();
  await assert.rejects(start(), /PORT_IN_USE/);
  await back.kill();
  const program = createServer();
  const listening = new Promise((resolve, reject) => {
    program.once("error", reject).listen(port, "127.0.0.1", () => resolve(program.close()));
  });
  await assert.rejects(listening, /EADDRINUSE/);
  await platform.restart();
});
