/** What a package of ours has of others: a bill of materials (CycloneDX), and their licences as they wrote them. */
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { PUBLISHED_NAME } from "../src/domain/published-name.ts";
import { VERSION } from "../src/domain/version.ts";

export interface ThirdParty {
  readonly name: string;
  readonly version: string;
  /** SPDX expression. */
  readonly license: string;
  /** Names and texts of its licence files. */
  readonly texts: readonly (readonly [file: string, text: string])[];
}

/** The packages that `files`, paths below `root`, are from: sorted, each version once. Throws for one that names no licence. */
export function thirdParties(root: string, files: readonly string[]): ThirdParty[] {
  const folders = new Set<string>();
  for (const file of files) {
    const [folder] = /^.*node_modules\/(@[^/]+\/)?[^/]+/.exec(file) ?? [];
    if (folder !== undefined) folders.add(folder);
  }
  const found = new Map<string, ThirdParty>();
  for (const folder of folders) {
    const party = readPackage(path.join(root, folder));
    found.set(`${party.name}@${party.version}`, party);
  }
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, party]) => party);
}

function readPackage(folder: string): ThirdParty {
  const { name, version, license, licenses } = JSON.parse(readFileSync(path.join(folder, "package.json"), "utf8"));
  const spdx = license?.type ?? license ?? licenses?.map(({ type }: { type: string }) => type).join(" OR ");
  if (typeof spdx !== "string") throw new Error(`${folder} names no licence`);
  const texts = readdirSync(folder)
    .filter((file) => /^(licen[cs]e|copying|notice)/i.test(file))
    .sort()
    .map((file) => [file, readFileSync(path.join(folder, file), "utf8").trim()] as const);
  return { name, version, license: spdx, texts };
}

export function licenceTexts(parties: readonly ThirdParty[]): string {
  const parts = parties.map(({ name, version, license, texts }) =>
    [`${"=".repeat(80)}\n${name} ${version} (${license})`, ...texts.map(([, text]) => text)].join("\n\n"),
  );
  return `${PUBLISHED_NAME} ${VERSION} contains code of these packages.\n\n${parts.join("\n\n")}\n`;
}

/** CycloneDX 1.6, the same for the same packages: no time, no serial number. */
export function billOfMaterials(parties: readonly ThirdParty[]): string {
  const component = (name: string, version: string, license: string) => {
    const purl = `pkg:npm/${name.replace("@", "%40")}@${version}`;
    return { type: "library", "bom-ref": purl, name, version, purl, licenses: [{ expression: license }] };
  };
  const own = { ...component(PUBLISHED_NAME, VERSION, "Apache-2.0"), type: "application" };
  const components = parties.map(({ name, version, license }) => component(name, version, license));
  const dependencies = [{ ref: own["bom-ref"], dependsOn: components.map((each) => each["bom-ref"]) }];
  const bom = { bomFormat: "CycloneDX", specVersion: "1.6", version: 1, metadata: { component: own } };
  return `${JSON.stringify({ ...bom, components, dependencies }, undefined, 2)}\n`;
}
