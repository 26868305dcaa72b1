/** api.py on a platform of its own, for the tests of one file. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { chmodSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http";
import path from "node:path";
import { before } from "node:test";
import { eventually } from "../../eventually.ts";
import { suiteContext } from "../../suite-context.ts";
import { project, startPlatform, type TestPlatform } from "../platform.ts";

export interface Deployed {
  platform: TestPlatform;
  /** URL of each endpoint by its name. */
  url: Record<string, string>;
  /** A request whose body is written bit by bit. */
  open(target: string, method: string): { req: ClientRequest; response: Promise<IncomingMessage> };
  /** Waits until the deployed code has made a note. */
  noted(name: string, matches?: (note: string) => boolean): Promise<void>;
}

/** Fills in before the suite's tests. */
export function deployApi(): Deployed {
  const deployed = {} as Deployed;
  const t = suiteContext();

  before(async () => {
    const platform = await startPlatform(t);
    const notes = path.join(platform.shared, "notes");
    mkdirSync(notes);
    chmodSync(notes, 0o777);
    const api = readFileSync(path.join(import.meta.dirname, "api.py"), "utf8");
    const source = api.replace('os.environ.get("NOTES", "/nowhere")', JSON.stringify(notes));
    const deploy = await platform.svc(["deploy"], { cwd: project(t, { "api.py": source }) });
    assert.equal(deploy.code, 0, deploy.stderr);
    const url = Object.fromEntries((await platform.endpoints()).map((endpoint) => [endpoint.name, endpoint.url]));
    Object.assign(deployed, {
      platform,
      url,
      open: (target: string, method: string) => open(target, method, platform.key),
      noted: async (name: string, matches = (note: string) => note === name) => {
        await eventually(() => assert.ok(readdirSync(notes).some(matches), name));
      },
    } satisfies Deployed);
  });
  return deployed;
}

function open(target: string, method: string, key: string) {
  const req = httpRequest(target, { method, headers: { authorization: `Bearer ${key}` } });
  req.on("error", () => {});
  const response = once(req, "response").then(([res]) => res as IncomingMessage);
  response.catch(() => {});
  if (method === "GET") req.end();
  return { req, response };
}
