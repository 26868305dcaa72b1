import type { Diagnostic } from "./build-result.ts";
import { type DependencySet, PLATFORM } from "./dependency-plan.ts";

const NOISE =
  /^\s*$|^(WARNING|DEPRECATION|Looking in|Collecting|Downloading|Using cached|Using CPython|\s+Downloading|\[notice\]|Processing|Resolved|Using Python|Prepared|Saved)/;
const LINES_MAX = 15;

/** What the installer said, with the requirement it is about and the endpoints that asked for it. */
export function installProblem(set: DependencySet, output: string): Diagnostic {
  const said = output
    .split(/\r?\n/)
    .filter((line) => !NOISE.test(line))
    .map((line) => line.replace(/^ERROR: /, "").trimEnd())
    .slice(-LINES_MAX);
  const text = said.join("\n");
  const blamed = set.requirements.filter(({ name }) => mentions(text, name));
  const asked = blamed.length > 0 ? blamed : set.requirements;
  const requirements = asked.map((requirement) => `"${requirement.text}"`).join(", ");
  const endpoints = set.endpoints.map((endpoint) => `"${endpoint.name}"`).join(", ");
  const indented = said.map((line) => `    ${line}`).join("\n");
  return {
    severity: "error",
    rule: "dependency-install",
    message: `${requirements} of endpoint ${endpoints} cannot be installed for Linux x86_64, Python ${set.pythonVersion}:\n${indented}`,
    help: wayOut(text, set),
    ...set.endpoints[0]!.dependenciesPlace,
  };
}

function mentions(text: string, name: string): boolean {
  return new RegExp(`(^|[^a-z0-9-])${name.replaceAll("-", "[-_.]+")}($|[^a-z0-9-])`, "im").test(text);
}

const WAYS_OUT: readonly (readonly [said: RegExp, help: (pythonVersion: string) => string])[] = [
  [
    /no matching distribution|could not find a version|was not found|only \S+ is available|there is no version of|no wheels|no usable wheels|only-binary/i,
    (version) =>
      `Check the name and the version. Only wheels for ${PLATFORM} or for any platform are installed; python_version= chooses another Python than ${version}.`,
  ],
  [
    /conflict|ResolutionImpossible|unsatisfiable|incompatible/i,
    () => "Loosen one of the versions, or move the packages to different endpoints: each endpoint has its own.",
  ],
  [
    /timed out|connection|resolve host|name resolution|network|dns|certificate/i,
    () => "Check the network and the index settings of pip or uv, then build again.",
  ],
  [
    /401|403|credential|authenticat|unauthorized|forbidden/i,
    () => "Check the credentials of the package index in your pip or uv configuration.",
  ],
];

function wayOut(text: string, set: DependencySet): string {
  const help = WAYS_OUT.find(([said]) => said.test(text))?.[1];
  return help?.(set.pythonVersion) ?? "Try the same requirements with pip install --dry-run to see more.";
}
