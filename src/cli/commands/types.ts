import { appFlag, command, envFlag, switchFlag } from "../command.ts";
import type { CliContext } from "../context.ts";
import { appOf } from "../project-settings.ts";
import { type TypedEndpoint, typescriptTypes } from "../typescript-types.ts";

export const typesCommand = command({
  brief: "Print TypeScript types of the endpoints",
  text: "Prints what endpoints take and return, for the client in TypeScript (svc/client). Types come from annotations: what only Python can tell is unknown.",
  examples: [
    ["svc types > endpoints.d.ts", "Of this directory's endpoints"],
    ["svc types --deployed --env staging", "Of those that are deployed there"],
  ],
  flags: {
    deployed: switchFlag("Of the deployed endpoints instead of this directory's"),
    app: { ...appFlag, brief: "App of --deployed; default: the name of this directory" },
    env: { ...envFlag, brief: "Environment of --deployed; default: production" },
  },
  aliases: { a: "app", e: "env" },
  async run(flags) {
    const isRemote = flags.deployed || flags.app !== undefined || flags.env !== undefined;
    const endpoints = isRemote ? await deployed(this, flags) : await declared(this);
    this.terminal.write(typescriptTypes([...endpoints].sort((a, b) => (a.name < b.name ? -1 : 1))));
  },
});

async function declared({ cwd, env }: CliContext): Promise<TypedEndpoint[]> {
  const { requireScan, scanProject } = await import("../../build/scan.ts");
  const scan = await scanProject({ projectDir: cwd, environment: env });
  requireScan(scan);
  return scan.endpoints.map(({ name, kind, functions, routes }) => ({
    name,
    kind,
    functions,
    routes: routes.map((route) => [`${route.method} ${route.path}`, route.function]),
  }));
}

async function deployed(context: CliContext, flags: { app?: string; env?: string }): Promise<TypedEndpoint[]> {
  const { requirePlatform } = await import("../connect.ts");
  const { controlPlane } = await requirePlatform(context);
  const app = appOf(context.cwd, flags.app);
  const environment = flags.env ?? "production";
  const all = (await controlPlane.endpoints()).filter((one) => one.app === app && one.environment === environment);
  if (all.length === 0) context.terminal.note(`Nothing is deployed in ${app}/${environment}.`);
  return all.map(({ name, kind, functions, routes }) => ({
    name,
    kind,
    functions,
    // The platform does not say which function answers a route: a function stands for one where each has its own.
    routes: routes.map((route, i) => [route, functions.length === routes.length ? functions[i] : undefined]),
  }));
}
