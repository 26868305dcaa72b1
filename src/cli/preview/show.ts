/** What a preview prints when it is ready: its endpoints by kind, where they are, and a call of each that works when pasted. */
import type { EndpointRecord } from "../../client/records.ts";
import type { Manifest } from "../../domain/manifest.ts";
import { endpointJson, GPU_EMULATED, reasonText } from "../endpoints-view.ts";
import { bestCall, type ExampleCall, exampleCalls, withoutKey } from "../example-call.ts";
import type { Terminal } from "../terminal.ts";

interface Shown {
  readonly endpoint: EndpointRecord;
  readonly port: number;
  readonly calls: readonly ExampleCall[];
}

export function showPreview(
  terminal: Terminal,
  place: { readonly app: string; readonly environment: string; readonly json?: boolean },
  endpoints: readonly EndpointRecord[],
  manifest: Manifest,
  portOf: (name: string) => number,
): void {
  const { app, environment } = place;
  const all = endpoints.map((record): Shown => {
    const port = portOf(record.name);
    const endpoint = { ...record, url: `http://localhost:${port}` };
    const routes = manifest.routes[record.name] ?? {};
    return { endpoint, port, calls: exampleCalls(endpoint, (route) => routes[route]).map(withoutKey) };
  });
  if (place.json) {
    const list = all.map(({ endpoint, port, calls }) => ({
      ...endpointJson(endpoint),
      port,
      insideUrl: `http://${endpoint.name}:${port}`,
      examples: calls,
    }));
    terminal.json({ app, environment, endpoints: list });
    return;
  }
  terminal.out(`Preview of ${app}, in containers of this machine.`);
  for (const kind of ["load-balanced", "queue"] as const) {
    const members = all.filter(({ endpoint }) => endpoint.kind === kind);
    if (members.length === 0) continue;
    terminal.out();
    terminal.out(terminal.colors.bold(kind === "queue" ? "Queue-based endpoints" : "Load-balanced endpoints"));
    for (const shown of members) showOne(terminal, shown);
  }
  terminal.out();
  terminal.out("Ctrl+C ends the preview and removes everything.");
}

function showOne(terminal: Terminal, { endpoint, port, calls }: Shown): void {
  const { bold, dim, yellow } = terminal.colors;
  terminal.out();
  terminal.out(`  ${endpoint.url}`);
  terminal.out(`    ${bold(endpoint.name)} ${dim(`(http://${endpoint.name}:${port} from the other endpoints)`)}`);
  if (endpoint.emulatesGpu) terminal.out(`    ${yellow(GPU_EMULATED)}`);
  if (endpoint.status.reason !== "") terminal.out(`    ${yellow(reasonText(endpoint))}`);
  for (const route of endpoint.routes) terminal.out(`    ${route}`);
  const best = bestCall(calls);
  if (best === undefined) return;
  terminal.out();
  terminal.out(`    ${best.command}`);
}
