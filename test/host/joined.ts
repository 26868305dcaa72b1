/** A played platform that listens for machines, and agents that join it. */
import { mkdirSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { TestContext } from "node:test";
import { openDiskArtifactStore } from "../../src/artifacts/disk-artifact-store.ts";
import { fingerprint, selfSignedCertificate } from "../../src/lib/self-signed-certificate.ts";
import { Reception, refuse } from "../../src/worker-link/reception.ts";
import { removeFolder } from "../remove-folder.ts";
import { AgentProcess } from "./agent-process.ts";
import { PlatformEnd, TOKEN } from "./platform-end.ts";

export async function openPlatformEnd(t: TestContext) {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-join-"));
  const certificate = selfSignedCertificate("svc worker link");
  const artifacts = await openDiskArtifactStore(path.join(dir, "artifacts"));
  const end = new PlatformEnd(() => artifacts);
  const reception = new Reception((connection, hello) => {
    if (hello.role === "host") end.attachHost(connection, hello);
    else refuse(connection, "unknown worker");
  });
  const port = await reception.listenTls({ host: "127.0.0.1", port: 0, ...certificate });
  await end.listen(port);
  const agents: AgentProcess[] = [];
  t.after(async () => {
    for (const agent of agents) await agent.end();
    await end.close();
    await reception.close();
    await removeFolder(dir);
  });
  end.fingerprint = fingerprint(certificate.cert);
  const address = `${end.url}#${end.fingerprint}`;
  const dataDir = path.join(dir, "host");
  mkdirSync(dataDir);
  const run = (args: readonly string[], env: Readonly<Record<string, string>> = {}) => {
    const agent = new AgentProcess(args, { SVC_HOST_TOKEN: undefined, ...env });
    agents.push(agent);
    return agent;
  };
  /** An agent on the usual data directory. */
  const join = (args: readonly string[] = [], env: Readonly<Record<string, string>> = { SVC_HOST_TOKEN: TOKEN }) =>
    run([address, "--data-dir", dataDir, "--name", "box", ...args], env);
  return { dir, dataDir, end, port, artifacts, address, run, join };
}
