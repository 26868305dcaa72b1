import { realpathSync } from "node:fs";
import type { Duplex } from "node:stream";
import { SvcError } from "../../domain/errors.ts";
import { LOCAL_PORT_DEFAULT } from "../../domain/limits.ts";
import { bracketed } from "../../lib/host-port.ts";
import { isLoopback } from "../../lib/loopback.ts";
import { command, endpointParameter, switchFlag, valueFlag, wholeNumber } from "../command.ts";
import { connectWithKey, findPlatform } from "../connect.ts";
import { cacheDir, configDir } from "../paths.ts";
import { detectedApp } from "../project-settings.ts";

/** Serves until Ctrl+C. Removes the live endpoints that it made; what stays behind is named, with the command that removes it. */
export const runCommand = command({
  brief: "Call this directory's functions on a local address while you write them",
  text: "Every function answers below http://localhost:8888, and each call runs the newest code on a worker of the platform.",
  examples: [
    ["svc run", "Serve on port 8888, with an explorer at /docs"],
    ["svc run --port 9000 --auto-provision", "Another port, all endpoints live at once"],
    ["svc run --debug hello", "Attach a debugger to hello; breakpoint() stops in it, or in this terminal"],
    ["svc run --no-reload", "Keep to the code as it is now"],
  ],
  flags: {
    host: valueFlag(
      "ADDRESS",
      "Address to listen on; default: localhost. Another than this machine's own asks callers for a token",
    ),
    port: valueFlag(
      "N",
      `Port; a busy one is passed over for the next free one; default: ${LOCAL_PORT_DEFAULT}`,
      wholeNumber(0, 65535),
    ),
    reload: { kind: "boolean", optional: true, brief: "Run every call on the newest code; default: on" },
    keep: switchFlag("Leave live endpoints in place at the end; with --auto-provision they stay without it"),
    debug: switchFlag("Have one endpoint wait for a debugger: the named one, or the only one"),
    autoProvision: switchFlag("Deploy all live endpoints at the start instead of with their first calls"),
  },
  aliases: { p: "port" },
  parameters: [{ ...endpointParameter("Endpoint that --debug is about"), optional: true }],
  async run(flags, name) {
    const { terminal, env } = this;
    if (name !== undefined && !flags.debug) {
      throw new SvcError("USAGE", `svc run serves all endpoints; "${name}" goes with --debug only.`, {
        help: `svc run --debug ${name}`,
      });
    }
    const { controlPlane, url: platformUrl } = await connectWithKey(this);
    if (flags.debug && !isLoopback(new URL(platformUrl).hostname.replace(/^\[|\]$/g, ""))) {
      throw new SvcError("USAGE", `--debug needs a platform on this machine, and ${platformUrl} is another.`, {
        help: "Start one with svc platform start, and call svc run without PLATFORM_URL.",
      });
    }
    const { startSession } = await import("../../dev/session.ts");
    const projectDir = realpathSync(this.cwd);
    const debug = flags.debug
      ? await import("../../dev/debug.ts").then(({ Debugging }) => {
          const talk = terminal.interactive ? (stream: Duplex) => terminal.attach(stream) : undefined;
          return Debugging.begin(projectDir, name, talk);
        })
      : undefined;
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
      debug,
      keep: flags.keep ?? flags.autoProvision ?? false,
      env,
      cacheDir: cacheDir(env),
      configDir: configDir(env),
      python: env.SVC_PYTHON,
      screen: terminal,
      controlPlane,
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
    const problem: unknown = await Promise.race([stopped, session.gone]).catch((error: unknown) => error);
    const { stay, removed } = await session.close();
    if (removed.length > 0) terminal.note(`\nRemoved: ${[...removed].sort().join(", ")}`);
    if (stay.length > 0) {
      const { app, environment } = session.place;
      terminal.note();
      terminal.note(`Live endpoints that stay: ${[...stay].sort().join(", ")}`);
      terminal.note(`Remove them with: svc undeploy --all --app ${app} --env ${environment}`);
    }
    if (problem !== undefined) throw problem;
    this.exit(0);
  },
});

function urlHost(host = "localhost"): string {
  if (host === "0.0.0.0" || host === "::") return "localhost";
  return bracketed(host);
}
