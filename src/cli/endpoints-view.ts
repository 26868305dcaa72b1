/** What commands print of endpoints: as a table, as JSON, and at the end of a deploy with calls that work when pasted. */
import type { EndpointRecord } from "../client/records.ts";
import type { Manifest } from "../domain/manifest.ts";
import { publicWords } from "../domain/public-routes.ts";
import { bestCall, type ExampleCall, exampleCalls } from "./example-call.ts";
import type { Terminal } from "./terminal.ts";

/** What programs get for an endpoint in every `--json` answer. */
export function endpointJson(endpoint: EndpointRecord) {
  const { status, pods, functions: _functions, ...rest } = endpoint;
  return {
    ...rest,
    state: status.state,
    reason: status.reason,
    workers: pods.filter((pod) => pod.state !== "FAILED").length,
  };
}

/** What stands beside an endpoint that asks for a GPU the platform does not have. */
export const GPU_EMULATED = "GPU emulated: it runs on the CPU of this machine";

/** What everybody may call, in a line. */
export function openText({ publicRoutes }: Pick<EndpointRecord, "publicRoutes">): string {
  return `open without a key: ${publicWords(publicRoutes)}`;
}

/** One line for each endpoint; what keeps one from taking calls stands below the table. */
export async function endpointTable(terminal: Terminal, endpoints: readonly EndpointRecord[]): Promise<void> {
  const places = Map.groupBy(endpoints, ({ app, environment }) => (app === null ? "no app" : `${app}/${environment}`));
  let first = true;
  for (const [place, members] of places) {
    if (!first) terminal.out();
    first = false;
    terminal.out(terminal.colors.bold(place));
    await terminal.table(
      ["ENDPOINT", "STATE", "WORKERS", "URL"],
      members.map((endpoint) => [endpoint.name, stateText(terminal, endpoint), workersText(endpoint), endpoint.url]),
      ["ENDPOINT", "URL"],
    );
  }
  const emulated = endpoints.filter((endpoint) => endpoint.emulatesGpu);
  if (emulated.length > 0) terminal.out();
  for (const { name } of emulated) terminal.out(`${name}: ${GPU_EMULATED}`);
  const open = endpoints.filter(({ publicRoutes }) => publicRoutes !== "");
  if (open.length > 0) terminal.out();
  for (const endpoint of open) terminal.out(`${endpoint.name}: ${openText(endpoint)}`);
  const troubled = endpoints.filter((endpoint) => endpoint.status.reason !== "");
  if (troubled.length > 0) terminal.out();
  for (const endpoint of troubled) terminal.out(reasonText(endpoint));
}

/** Why an endpoint does not take calls as wished, with its name, and who takes them instead. */
export function reasonText({ name, status, pods }: EndpointRecord): string {
  const reason = status.reason.trim();
  const text = reason.startsWith(`Endpoint "${name}"`) ? reason : `${name}: ${reason}`;
  if (status.state !== "BLOCKED") return text;
  const earlier = pods.some((pod) => !pod.current && pod.state === "READY");
  return earlier ? `${text}\nWorkers of the build before still take the calls of ${name}.` : text;
}

export function stateText(terminal: Terminal, { status }: EndpointRecord): string {
  const { green, yellow, red, dim } = terminal.colors;
  const paint = { READY: green, PREPARING: yellow, BLOCKED: red, STOPPED: dim }[status.state];
  return paint(status.state);
}

/** "1 of 0-3": how many are ready of how many there may be; "1+2 of 0-3" while two more start. */
export function workersText({ pods, workersMin, workersMax }: EndpointRecord): string {
  const ready = pods.filter((pod) => pod.state === "READY").length;
  const coming = pods.filter((pod) => pod.state === "STARTING" || pod.state === "BOOTING").length;
  return `${ready}${coming > 0 ? `+${coming}` : ""} of ${workersMin}-${workersMax}`;
}

/** What a deploy prints at its end: the endpoints by kind, each with its best call. */
export function showEndpoints(terminal: Terminal, endpoints: readonly EndpointRecord[], manifest: Manifest): void {
  const { bold } = terminal.colors;
  const groups = [
    ["Load-balanced endpoints", endpoints.filter((endpoint) => endpoint.kind === "load-balanced")],
    ["Queue-based endpoints", endpoints.filter((endpoint) => endpoint.kind === "queue")],
  ] as const;
  for (const [title, members] of groups) {
    if (members.length === 0) continue;
    terminal.out();
    terminal.out(bold(title));
    for (const endpoint of members) showEndpoint(terminal, endpoint, callsOf(endpoint, manifest));
  }
  for (const endpoint of endpoints) {
    if (endpoint.status.reason !== "") terminal.warn(reasonText(endpoint));
  }
  if (endpoints.length > 0) {
    terminal.out();
    terminal.out("The calls need the key in your shell: export PLATFORM_API_KEY=$(svc whoami --show-key)");
  }
}

export function deployedJson(endpoint: EndpointRecord, manifest: Manifest) {
  return { ...endpointJson(endpoint), examples: callsOf(endpoint, manifest) };
}

function showEndpoint(terminal: Terminal, endpoint: EndpointRecord, calls: readonly ExampleCall[]): void {
  terminal.out();
  terminal.out(`  ${endpoint.url}`);
  terminal.out(`    ${terminal.colors.bold(endpoint.name)}`);
  if (endpoint.emulatesGpu) terminal.out(`    ${terminal.colors.yellow(GPU_EMULATED)}`);
  for (const route of endpoint.routes) terminal.out(`    ${route}`);
  if (endpoint.publicRoutes !== "") terminal.out(`    ${terminal.colors.yellow(openText(endpoint))}`);
  const best = bestCall(calls);
  if (best === undefined) return;
  terminal.out();
  terminal.out(`    ${best.command}`);
}

function callsOf(endpoint: EndpointRecord, manifest: Manifest): ExampleCall[] {
  const routes = manifest.routes[endpoint.name] ?? {};
  return exampleCalls(endpoint, (route) => routes[route]);
}
