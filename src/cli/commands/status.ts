import { Administration, type VolumeRecord } from "../../client/administration.ts";
import type { EndpointRecord } from "../../client/records.ts";
import { SvcError } from "../../domain/errors.ts";
import { appFlag, command, endpointParameter, envFlag, type FlagsOf, jsonFlag, switchFlag } from "../command.ts";
import { type Connection, requirePlatform } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { endpointJson, endpointTable, GPU_EMULATED, openText, stateText, workersText } from "../endpoints-view.ts";
import { callsOfRecord } from "../example-call.ts";
import { clockTime, volumeSizeText } from "../format.ts";
import { detectedApp } from "../project-settings.ts";
import { endpointNamed, inScope, placeOf } from "../select-endpoints.ts";

const flags = {
  app: { ...appFlag, brief: "Only this app" },
  env: { ...envFlag, brief: "Only this environment" },
  why: switchFlag("Explain why workers were started and stopped"),
  json: jsonFlag,
};
type Flags = FlagsOf<typeof flags>;

export const statusCommand = command({
  brief: "Show endpoints, their state and their workers",
  text: "Shows what is deployed, whether it takes calls, and if not, why.",
  examples: [
    ["svc status", "Every endpoint of the platform"],
    ["svc status hello", "One endpoint, with example calls"],
    ["svc status hello --why", "Why workers were started and stopped"],
    ["svc status --json", "The same for programs"],
  ],
  flags,
  aliases: { a: "app", e: "env" },
  parameters: [{ ...endpointParameter("Show this endpoint with its calls"), optional: true }],
  async run(flags, name?: string) {
    const { terminal } = this;
    const connection = await requirePlatform(this);
    for (const notice of await connection.controlPlane.notices()) terminal.note(`warning: ${notice}`);
    const endpoints = inScope(await connection.controlPlane.endpoints(), flags);
    if (name !== undefined) {
      const endpoint = endpointNamed(endpoints, name, detectedApp(this.cwd));
      if (flags.why) return showWhy(this, connection, endpoint, flags);
      return showOne(this, endpoint, await volumesOf(connection, endpoint), flags);
    }
    if (flags.why) {
      throw new SvcError("USAGE", "--why explains one endpoint.", { help: "svc status ENDPOINT_NAME --why" });
    }
    if (flags.json) return terminal.json(endpoints.map(endpointJson));
    if (endpoints.length === 0) return terminal.note("No endpoints are deployed here. Next: svc deploy");
    await endpointTable(terminal, endpoints);
  },
});

/** Of an endpoint of a deployed environment; a platform of an earlier version does not say. */
async function volumesOf({ controlPlane }: Connection, endpoint: EndpointRecord): Promise<readonly VolumeRecord[]> {
  const { app, environment, name } = endpoint;
  if (app === null || environment === null) return [];
  const all = await new Administration(controlPlane.platform).volumes({ app, environment }).catch(() => []);
  return all.filter(({ cache, endpoints }) => !cache && endpoints.includes(name));
}

function showOne(
  { terminal }: CliContext,
  endpoint: EndpointRecord,
  volumes: readonly VolumeRecord[],
  flags: Flags,
): void {
  const examples = callsOfRecord(endpoint);
  if (flags.json) {
    terminal.json({ ...endpointJson(endpoint), volumes, pods: endpoint.pods, examples });
    return;
  }
  const rows: (readonly [label: string, value: string])[] = [
    ["endpoint", `${endpoint.name} (${placeOf(endpoint)})`],
    ["id", endpoint.id],
    ["kind", endpoint.kind],
    ["URL", endpoint.url],
    ["state", stateText(terminal, endpoint)],
    ["workers", workersText(endpoint)],
    [
      "runs on",
      endpoint.gpuIds === ""
        ? endpoint.instanceIds.join(", ")
        : `${endpoint.gpuCount === 1 ? "" : `${endpoint.gpuCount} × `}GPU ${endpoint.gpuIds}${endpoint.emulatesGpu ? ` (${GPU_EMULATED})` : ""}`,
    ],
    ["build", endpoint.buildId ?? "none"],
    ...(endpoint.publicRoutes === "" ? [] : ([["open", openText(endpoint)]] as const)),
    ...volumes.map((volume): [string, string] => ["volume", `${volume.name} ${volumeSizeText(volume)}`.trim()]),
  ];
  for (const [label, value] of rows) terminal.out(`${label.padEnd(10)}${value}`);
  if (endpoint.status.reason !== "") terminal.out(`${"reason".padEnd(10)}${endpoint.status.reason}`);
  for (const line of endpoint.status.progress) terminal.out(`${"".padEnd(10)}${line}`);
  for (const pod of endpoint.pods) {
    const on = pod.host === null ? "" : ` on ${pod.host}`;
    terminal.out(`${"worker".padEnd(10)}${pod.id} ${pod.state}${on}${pod.reason === "" ? "" : `: ${pod.reason}`}`);
    if (pod.boot !== "") {
      const isolation = pod.isolation === "" ? "none" : pod.isolation;
      terminal.out(`${"".padEnd(12)}started by ${pod.boot}; limits: ${pod.limits}; isolation: ${isolation}`);
    }
  }
  terminal.out();
  for (const { command } of examples) terminal.out(command);
}

/** Why workers were started and stopped. */
async function showWhy({ terminal }: CliContext, { controlPlane }: Connection, endpoint: EndpointRecord, flags: Flags) {
  const decisions = await controlPlane.decisions(endpoint.id);
  if (flags.json) return terminal.json(decisions);
  if (decisions.length === 0) {
    return terminal.note(`No worker of ${endpoint.name} was started or stopped since the platform started.`);
  }
  await terminal.table(
    ["TIME", "STARTED", "STOPPED", "WHY"],
    decisions.map(({ at, start, stop, reason, times }) => [
      clockTime(at),
      String(start),
      String(stop),
      times > 1 ? `${reason} (${times} times)` : reason,
    ]),
  );
}
