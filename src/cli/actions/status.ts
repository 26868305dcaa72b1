import { findPlatform, noPlatform } from "../connect.ts";
import type { CliContext } from "../context.ts";
import { callsOfRecord } from "../deploy/example-call.ts";
import { endpointJson, endpointTable, stateText, workersText } from "../endpoints-view.ts";
import { detectedApp } from "../project-settings.ts";
import { endpointNamed, inScope, placeOf } from "../select-endpoints.ts";

interface Flags {
  readonly app?: string;
  readonly env?: string;
  readonly json?: boolean;
}

export async function status(this: CliContext, flags: Flags, name?: string): Promise<void> {
  const { terminal } = this;
  const connection = await findPlatform(this);
  if (connection === undefined) throw noPlatform();
  const endpoints = inScope(await connection.controlPlane.endpoints(), flags);
  if (name !== undefined) return showOne(this, endpointNamed(endpoints, name, detectedApp(this.cwd)), flags);
  if (flags.json) return terminal.json(endpoints.map(endpointJson));
  if (endpoints.length === 0) return terminal.note("No endpoints are deployed here. Next: svc deploy");
  await endpointTable(terminal, endpoints);
}

function showOne({ terminal }: CliContext, endpoint: Parameters<typeof endpointJson>[0], flags: Flags): void {
  const examples = callsOfRecord(endpoint);
  if (flags.json) {
    terminal.json({ ...endpointJson(endpoint), pods: endpoint.pods, examples });
    return;
  }
  const rows: [label: string, value: string][] = [
    ["endpoint", `${endpoint.name} (${placeOf(endpoint)})`],
    ["id", endpoint.id],
    ["kind", endpoint.kind],
    ["URL", endpoint.url],
    ["state", stateText(terminal, endpoint)],
    ["workers", workersText(endpoint)],
    ["runs on", endpoint.gpuIds === "" ? endpoint.instanceIds : `GPU ${endpoint.gpuIds}`],
    ["build", endpoint.buildId ?? "none"],
  ];
  for (const [label, value] of rows) terminal.out(`${label.padEnd(10)}${value}`);
  if (endpoint.status.reason !== "") terminal.out(`${"reason".padEnd(10)}${endpoint.status.reason}`);
  for (const line of endpoint.status.progress) terminal.out(`${"".padEnd(10)}${line}`);
  for (const pod of endpoint.pods) {
    terminal.out(`${"worker".padEnd(10)}${pod.id} ${pod.state}${pod.reason === "" ? "" : `: ${pod.reason}`}`);
  }
  terminal.out();
  for (const { command } of examples) terminal.out(command);
}
