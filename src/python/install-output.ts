/** What pip and uv print, in words for people: how far they are, and why they gave up. */

/** "installing numpy 2.1.0 (16.9 MB)", or undefined for a line that tells nothing new. */
export function installStep(line: string): string | undefined {
  const text = line.trim();
  const wheel =
    /^(?:Downloading|Using cached) (?:\S*\/)?([\w.]+?)-([\w.!+]+)-\S+\.whl(?:\.metadata)?(?: \(([\d.]+) ([kMG]?B|bytes)\))?/.exec(
      text,
    );
  if (wheel !== null) {
    if (text.includes(".whl.metadata")) return undefined;
    const size = wheel[3] === undefined ? "" : ` (${wheel[3]} ${wheel[4]})`;
    return `installing ${wheel[1]} ${wheel[2]}${size}`;
  }
  const uv = /^Downloading ([\w.-]+) \(([\d.]+)([KMG]?)i?B\)$/.exec(text);
  if (uv !== null) return `installing ${uv[1]} (${decimal(Number(uv[2]), uv[3]!)})`;
  const collecting = /^Collecting ([\w.-]+)/.exec(text);
  if (collecting !== null) return `looking up ${collecting[1]}`;
  return undefined;
}

/** uv counts in powers of 1024, pip and everybody else here in powers of 1000. */
function decimal(value: number, unit: string): string {
  const power = ["", "K", "M", "G"].indexOf(unit);
  return `${(value * 1.024 ** power).toFixed(1)} ${["B", "kB", "MB", "GB"][power]}`;
}

const FAILURES = [
  // First, because pip ends with "no matching distribution" also when it reached no index.
  ["network", /Retrying \(|error sending request|tcp connect|dns error|NewConnectionError|timed out|name resolution/i],
  ["credentials", /\b(401|403)\b|credential|authenticat|unauthorized|forbidden/i],
  [
    "not-found",
    /no matching distribution|could not find a version|was not found|only \S+ is available|there is no version of|no wheels|no usable wheels|only-binary/i,
  ],
  ["conflict", /conflict|ResolutionImpossible|unsatisfiable|incompatible/i],
] as const satisfies readonly (readonly [kind: string, said: RegExp])[];

const NETWORK_COMPLAINT_MAX_CHARS = 300;

export type InstallFailure = (typeof FAILURES)[number][0] | "other";

export function installFailure(output: string): InstallFailure {
  return FAILURES.find(([, said]) => said.test(output))?.[0] ?? "other";
}

/** Why a failed installer reached no index, as its last complaint says it, the root cause for uv; "" when it says nothing. */
export function networkComplaint(output: string): string {
  const lines = output.split(/\r?\n/);
  const said = lines.findLast((line) => FAILURES[0][1].test(line) || /^\s*Caused by: /.test(line)) ?? "";
  // pip: Retrying (…) after connection broken by 'NewConnectionError('<… object at 0x…>: Failed to establish …')': /simple/numpy/
  const [, broken = said.trim().replace(/^Caused by: /, "")] =
    /connection broken by '(.*)'(?:: \S*)?$/.exec(said) ?? [];
  const reason = broken.replace(/^(?:\w+\((?:\d+, )?)*['"]?(?:<[^>]*>: )?/, "").replace(/['"]\)+$/, "");
  return reason.slice(0, NETWORK_COMPLAINT_MAX_CHARS);
}

const NOISE =
  /^\s*$|^(WARNING|DEPRECATION|Looking in|Collecting|Downloading|Using cached|Using CPython|\s+Download|\[notice\]|Processing|Resolved|svc: found|Using Python|Prepared|Saved)/;

/** The last lines that matter of what a failed installer printed. */
export function installComplaint(output: string, linesMax: number): string[] {
  return output
    .split(/\r?\n/)
    .filter((line) => !NOISE.test(line))
    .map((line) => line.replace(/^(ERROR|error): /, "").trimEnd())
    .slice(-linesMax);
}

export function withoutCredentials(text: string): string {
  return text.replace(/(\w:\/\/)[^/@\s]+@/g, "$1***@");
}
