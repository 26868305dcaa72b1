import { realpathSync } from "node:fs";
import { keyError } from "../../client/answer-error.ts";
import { startSession } from "../../dev/session.ts";
import { LOCAL_PORT_DEFAULT } from "../../domain/limits.ts";
import { connect, findPlatform } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { cacheDir, configDir } from "../paths.ts";
import { detectedApp } from "../project-settings.ts";

interface Flags {
  readonly host?: string;
  readonly port?: number;
  readonly reload?: boolean;
  readonly autoProvision?: boolean;
}

/** Serves until Ctrl+C. What stays behind is named, with the command that removes it. */
export async function run(this: CliContext, flags: Flags): Promise<void> {
  const { terminal, env } = this;
  const connection = await connect(this);
  if (connection.apiKey === undefined) throw keyError({ url: connection.url, apiKey: undefined });
  const projectDir = realpathSync(this.cwd);
  const stopped = new Promise<undefined>((resolve) => {
    this.interrupt.claim((again) => (again ? this.interrupt.end() : resolve(undefined)));
  });
  const starting = startSession({
    projectDir,
    app: detectedApp(projectDir),
    host: flags.host ?? "localhost",
    port: flags.port ?? LOCAL_PORT_DEFAULT,
    reload: flags.reload ?? true,
    autoProvision: flags.autoProvision ?? false,
    env,
    cacheDir: cacheDir(env),
    configDir: configDir(env),
    python: env.SVC_PYTHON,
    screen: terminal,
    controlPlane: connection.controlPlane,
    findPlatform: async () => (await findPlatform(this))?.controlPlane,
  });
  const session = await Promise.race([starting, stopped]);
  if (session === undefined) return this.interrupt.end();
  const url = `http://${urlHost(flags.host)}:${session.port}`;
  terminal.out();
  if (session.openAddresses.length === 0) {
    terminal.out(`Listening on ${url}, explorer at ${url}/docs. Ctrl+C stops it.`);
  } else {
    terminal.warn("Open to the network: who has one of these addresses runs your functions with your key.");
    for (const address of session.openAddresses) terminal.out(`  ${address}`);
    terminal.out("Programs send the token in it as Authorization: Bearer TOKEN.");
    terminal.out(`Listening on ${url}. Ctrl+C stops it.`);
  }
  await stopped;
  const stay = await session.close();
  if (stay.length > 0) {
    const { app, environment } = session.place;
    terminal.note();
    terminal.note(`Live endpoints that stay: ${[...stay].sort().join(", ")}`);
    terminal.note(`Remove them with: svc undeploy --all --app ${app} --env ${environment}`);
  }
  this.exit(0);
}

function urlHost(host = "localhost"): string {
  if (host === "0.0.0.0" || host === "::") return "localhost";
  return host.includes(":") ? `[${host}]` : host;
}
