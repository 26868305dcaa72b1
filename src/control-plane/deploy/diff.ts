/**
 * What makes an environment's endpoints those of a build. Pure: endpoints are matched by name, and one whose kind
 * changed is a new endpoint, because its URL and its way of being called change.
 */
import type { EndpointKind } from "../../domain/endpoint.ts";
import type { EnvValues } from "../../domain/env.ts";
import { publicWords } from "../../domain/public-routes.ts";
import { readSchedule, scheduleText } from "../../domain/schedule.ts";
import type { Endpoint } from "../../store/store.ts";
import type { EndpointCode } from "../revision.ts";
import type { DeclaredSettings, DesiredEndpoint } from "./build-request.ts";

export interface CurrentEndpoint {
  readonly endpoint: Endpoint;
  /** What its workers run now; null when its build is gone. */
  readonly code: EndpointCode | null;
}

/** `details` say what differs, e.g. `code`, `workersMax 3 → 5`. */
export type Change =
  | { readonly action: "create"; readonly desired: DesiredEndpoint; readonly details: readonly string[] }
  | {
      readonly action: "update" | "unchanged";
      readonly desired: DesiredEndpoint;
      readonly current: Endpoint;
      readonly details: readonly string[];
    }
  | { readonly action: "remove"; readonly current: Endpoint; readonly details: readonly string[] };

/** Changes in the order of the build; endpoints that leave come last. */
export function diffEnvironment(
  desired: readonly DesiredEndpoint[],
  current: readonly CurrentEndpoint[],
  keepRemoved: boolean,
): Change[] {
  const byName = new Map(current.map((one) => [one.endpoint.name, one]));
  const changes: Change[] = [];
  const leaving: Change[] = [];
  for (const wanted of desired) {
    const existing = byName.get(wanted.name);
    byName.delete(wanted.name);
    if (existing === undefined) {
      changes.push({ action: "create", desired: wanted, details: opened(wanted) });
    } else if (existing.endpoint.kind !== wanted.kind) {
      const detail = `kind ${existing.endpoint.kind} → ${wanted.kind}, so its URL changes`;
      leaving.push({ action: "remove", current: existing.endpoint, details: [detail] });
      changes.push({ action: "create", desired: wanted, details: [detail, ...opened(wanted)] });
    } else {
      const details = differences(wanted, existing);
      const action = details.length === 0 ? "unchanged" : "update";
      changes.push({ action, desired: wanted, current: existing.endpoint, details });
    }
  }
  const gone = keepRemoved ? [] : [...byName.values()];
  for (const { endpoint } of gone) {
    leaving.push({ action: "remove", current: endpoint, details: ["no longer in the code"] });
  }
  return [...changes, ...leaving];
}

export function nameOf(change: Change): string {
  return change.action === "remove" ? change.current.name : change.desired.name;
}

export function kindOf(change: Change): EndpointKind {
  return change.action === "remove" ? change.current.kind : change.desired.kind;
}

function differences(wanted: DesiredEndpoint, { endpoint, code }: CurrentEndpoint): string[] {
  return [
    ...codeDifferences(wanted.code, code),
    ...(sameEnv(wanted.env, endpoint.env) ? [] : ["env"]),
    ...scheduleDifference(wanted.schedule, endpoint.schedule),
    ...(Object.keys(wanted.settings) as (keyof DeclaredSettings)[])
      .filter((key) => wanted.settings[key] !== endpoint[key])
      .map((key) =>
        key === "publicRoutes"
          ? `open without a key: ${publicWords(endpoint[key])} → ${publicWords(wanted.settings[key])}`
          : `${key} ${shown(endpoint[key])} → ${shown(wanted.settings[key])}`,
      ),
  ];
}

/** What everybody may call of a new endpoint is said before it is deployed. */
function opened({ kind, settings }: DesiredEndpoint): string[] {
  return settings.publicRoutes === "" ? [] : [kind, `open without a key: ${publicWords(settings.publicRoutes)}`];
}

function codeDifferences(wanted: EndpointCode, code: EndpointCode | null): string[] {
  if (code === null) return ["code"];
  const details: string[] = [];
  if (wanted.source !== code.source || wanted.handler !== code.handler) details.push("code");
  const base = (one: EndpointCode) => [...one.baseDependencies].sort().join("\n");
  if (wanted.dependencyLayer !== code.dependencyLayer || base(wanted) !== base(code)) details.push("dependencies");
  if (wanted.pythonVersion !== code.pythonVersion) {
    details.push(`pythonVersion ${code.pythonVersion} → ${wanted.pythonVersion}`);
  }
  if (wanted.image !== code.image) details.push("what is built on the image");
  if (wanted.gpuPreference.join() !== code.gpuPreference.join()) details.push("order of GPUs");
  return details;
}

function scheduleDifference(wanted: string, current: string): string[] {
  if (wanted === current) return [];
  const [before, after] = [current, wanted].map((stored) => {
    const schedule = readSchedule(stored);
    return schedule === undefined ? "none" : scheduleText(schedule);
  });
  return [before === after ? "schedule's input or rules" : `schedule ${before} → ${after}`];
}

function sameEnv(a: EnvValues, b: EnvValues): boolean {
  const names = Object.keys(a);
  const same = (name: string) => Object.hasOwn(b, name) && JSON.stringify(a[name]) === JSON.stringify(b[name]);
  return names.length === Object.keys(b).length && names.every(same);
}

function shown(value: string | number): string {
  return value === "" ? "none" : String(value);
}
