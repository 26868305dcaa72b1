import { type InstallFailure, installComplaint, installFailure } from "../lib/install-output.ts";
import type { Diagnostic } from "./build-result.ts";
import { type DependencySet, PLATFORM } from "./dependency-plan.ts";

const LINES_MAX = 15;

/** What the installer said, with the requirement it is about and the endpoints that asked for it. */
export function installProblem(set: DependencySet, output: string): Diagnostic {
  const said = installComplaint(output, LINES_MAX);
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
    help: WAYS_OUT[installFailure(output)](set.pythonVersion),
    ...set.endpoints[0]!.dependenciesPlace,
  };
}

function mentions(text: string, name: string): boolean {
  return new RegExp(`(^|[^a-z0-9-])${name.replaceAll("-", "[-_.]+")}($|[^a-z0-9-])`, "im").test(text);
}

const WAYS_OUT: Readonly<Record<InstallFailure, (pythonVersion: string) => string>> = {
  network: () => "The package index cannot be reached: check the network and the index settings of pip or uv.",
  credentials: () => "Check the credentials of the package index in your pip or uv configuration.",
  "not-found": (version) =>
    `Check the name and the version. Only wheels for ${PLATFORM} or for any platform are installed; python_version= chooses another Python than ${version}.`,
  conflict: () => "Loosen one of the versions, or move the packages to different endpoints: each endpoint has its own.",
  other: () => "Try the same requirements with pip install --dry-run to see more.",
};
