/** What svc top shows, as lines: endpoints below their place, then the newest decisions. */
import type { EndpointGlance, Glance } from "../../client/history.ts";
import { clockTime } from "../format.ts";
import type { Terminal } from "../terminal.ts";

type Colors = Terminal["colors"];

export interface TopView {
  readonly head: readonly string[];
  /** Scrolls when there is more than fits. */
  readonly body: readonly string[];
  readonly foot: readonly string[];
}

const GAP = " ";
const NAME_MIN = 12;
/** "draining". */
const STATE_WIDTH = 8;
const COLUMNS = [
  ["STATE", 9],
  ["WORKERS", 9],
  ["WAIT", 6],
  ["RUN", 5],
  ["P50", 8],
  ["P95", 8],
  ["FAIL", 6],
] as const;
const REST = COLUMNS.reduce((sum, [, width]) => sum + width + GAP.length, 0);

export function topView(glance: Glance, now: number, columns: number, colors: Colors): TopView {
  const { endpoints, capacity, hosts, decisions } = glance;
  const ready = endpoints.reduce((sum, { pods }) => sum + countOf(pods, "READY"), 0);
  const { vcpu, memoryGb } = capacity;
  const nameWidth = Math.max(NAME_MIN, columns - REST);
  const head = [
    `${colors.bold("svc top")}  ${clockTime(now)}  vCPU ${number(vcpu.promised)} of ${number(vcpu.total)}  memory ${number(memoryGb.promised)} of ${number(memoryGb.total)} GB  workers ${ready}`,
    colors.dim(cell("ENDPOINT", nameWidth) + COLUMNS.map(([name, width]) => GAP + right(name, width)).join("")),
  ];
  const body: string[] = [];
  const places = Map.groupBy(sorted(endpoints), placeOf);
  for (const [place, members] of places) {
    body.push(colors.bold(place), ...members.map((endpoint) => row(endpoint, nameWidth, colors)));
  }
  if (endpoints.length === 0) body.push("No endpoints are deployed here. Next: svc deploy");
  if (hosts.length > 0) body.push("", colors.bold("Machines that joined"));
  for (const host of hosts) body.push(hostLine(host, columns, colors));
  const foot = decisions.map(({ at, endpoint, start, stop, reason, times }) => {
    const change = start > 0 ? `+${start}` : stop > 0 ? `-${stop}` : "·";
    return colors.dim(`${clockTime(at)} ${endpoint} ${change} ${reason}${times > 1 ? ` (${times} times)` : ""}`);
  });
  return { head, body, foot };
}

function row(endpoint: EndpointGlance, nameWidth: number, colors: Colors): string {
  const { name, status, load, pods, workersMin, workersMax } = endpoint;
  const paint = { READY: colors.green, PREPARING: colors.yellow, BLOCKED: colors.red, STOPPED: colors.dim }[
    status.state
  ];
  const coming = countOf(pods, "STARTING") + countOf(pods, "BOOTING");
  const workers = `${countOf(pods, "READY")}${coming > 0 ? `+${coming}` : ""}/${workersMin}-${workersMax}`;
  const cells = [status.state, workers, load.waiting, load.running, ms(load.p50Ms), ms(load.p95Ms), load.failed];
  const shown = cells.map((value, i) => GAP + right(String(value), COLUMNS[i]![1]));
  shown[0] = paint(shown[0]!);
  if (load.failed > 0) shown[COLUMNS.length - 1] = colors.red(shown.at(-1)!);
  return cell(`  ${name}`, nameWidth) + shown.join("");
}

/** What is busy is left out where the terminal is too narrow for it. */
function hostLine(host: Glance["hosts"][number], columns: number, colors: Colors): string {
  const { name, state, vcpu, memoryGb, workers } = host;
  const facts = (withBusy: boolean) => {
    const share = (label: string, of: typeof vcpu, unit = "") => {
      if (of === null) return [];
      const busy = withBusy && of.used !== null ? `, ${number(of.used)} busy` : "";
      return [`${label} ${number(of.promised)} of ${number(of.total)}${unit}${busy}`];
    };
    return [`workers ${workers.length}`, ...share("vCPU", vcpu), ...share("memory", memoryGb, " GB")].join("  ");
  };
  const room = columns - STATE_WIDTH - GAP.length * 2;
  const rest = [facts(true), facts(false)].find((text) => text.length + NAME_MIN <= room) ?? facts(false);
  const paint = state === "joined" ? colors.green : colors.yellow;
  const shown = rest.slice(0, Math.max(0, room - NAME_MIN));
  return cell(`  ${name}`, room - shown.length) + GAP + paint(state.padEnd(STATE_WIDTH)) + GAP + shown;
}

function sorted(endpoints: readonly EndpointGlance[]): EndpointGlance[] {
  const key = (endpoint: EndpointGlance) => `${placeOf(endpoint)}\0${endpoint.name}`;
  return [...endpoints].sort((a, b) => key(a).localeCompare(key(b)));
}

function placeOf({ app, environment }: EndpointGlance): string {
  return app === null ? "no app" : `${app}/${environment}`;
}

function countOf(pods: EndpointGlance["pods"], state: string): number {
  return pods.filter((pod) => pod.state === state).length;
}

function cell(text: string, width: number): string {
  return text.length > width ? `${text.slice(0, width - 1)}…` : text.padEnd(width);
}

function right(text: string, width: number): string {
  return text.length > width ? text.slice(0, width) : text.padStart(width);
}

/** "12ms", "3.4s", "5m": in eight characters. */
function ms(value: number | null): string {
  if (value === null) return "-";
  if (value < 1_000) return `${value < 10 ? value.toFixed(1) : Math.round(value)}ms`;
  return value < 600_000 ? `${(value / 1_000).toFixed(1)}s` : `${Math.round(value / 60_000)}m`;
}

function number(value: number): string {
  return String(Number(value.toFixed(1)));
}
