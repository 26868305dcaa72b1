import type { EndpointRecord } from "../client/records.ts";
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

/** One line for each endpoint; what keeps one from taking calls stands below the table. */
export async function endpointTable(terminal: Terminal, endpoints: readonly EndpointRecord[]): Promise<void> {
  await terminal.table(
    ["APP", "ENVIRONMENT", "ENDPOINT", "KIND", "STATE", "WORKERS", "URL"],
    endpoints.map((endpoint) => [
      endpoint.app ?? "-",
      endpoint.environment ?? "-",
      endpoint.name,
      endpoint.kind,
      stateText(terminal, endpoint),
      workersText(endpoint),
      endpoint.url,
    ]),
  );
  const emulated = endpoints.filter((endpoint) => endpoint.emulatesGpu);
  if (emulated.length > 0) terminal.out();
  for (const { name } of emulated) terminal.out(`${name}: ${GPU_EMULATED}`);
  const troubled = endpoints.filter((endpoint) => endpoint.status.reason !== "");
  if (troubled.length > 0) terminal.out();
  for (const endpoint of troubled) terminal.out(reasonText(endpoint));
}

/** Why an endpoint does not take calls as wished, with its name. */
export function reasonText({ name, status }: EndpointRecord): string {
  const reason = status.reason.trim();
  return reason.startsWith(`Endpoint "${name}"`) ? reason : `${name}: ${reason}`;
}

export function stateText(terminal: Terminal, { status }: EndpointRecord): string {
  const { green, yellow, red, dim } = terminal.colors;
  const paint = { READY: green, PREPARING: yellow, BLOCKED: red, STOPPED: dim }[status.state];
  return paint(status.state);
}

/** "1 ready of 0 to 3" */
export function workersText({ pods, workersMin, workersMax }: EndpointRecord): string {
  const ready = pods.filter((pod) => pod.state === "READY").length;
  const coming = pods.filter((pod) => pod.state === "STARTING" || pod.state === "BOOTING").length;
  const now = coming > 0 ? `${ready} ready, ${coming} starting` : `${ready} ready`;
  return `${now} of ${workersMin} to ${workersMax}`;
}
