/** What a deploy prints at its end: the endpoints by kind, each with a call that works when it is pasted. */
import type { EndpointRecord } from "../../client/records.ts";
import type { Manifest } from "../../domain/manifest.ts";
import { endpointJson, GPU_EMULATED, reasonText } from "../endpoints-view.ts";
import type { Terminal } from "../terminal.ts";
import { bestCall, type ExampleCall, exampleCalls } from "./example-call.ts";

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
  const best = bestCall(calls);
  if (best === undefined) return;
  terminal.out();
  terminal.out(`    ${best.command}`);
}

function callsOf(endpoint: EndpointRecord, manifest: Manifest): ExampleCall[] {
  const routes = manifest.routes[endpoint.name] ?? {};
  return exampleCalls(endpoint, (route) => routes[route]);
}
