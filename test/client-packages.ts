/** The packages that the pages of docs/clients are about, as test/set-up.ts installs them: once, into a cache folder. */
import path from "node:path";
import { pythonEnvironment } from "../bench/processes.ts";
import { ROOT } from "./e2e/platform-process.ts";
import { nodePackages } from "./node-packages.ts";

/** Page → what it needs besides Python, Node and what this repository has. */
export const CLIENT_PACKAGES: Readonly<
  Record<string, { readonly python?: string; readonly node?: readonly string[] }>
> = {
  "ai-sdk.md": { node: ["ai", "@ai-sdk/openai-compatible"] },
  "curl.md": {},
  "langchain.md": { python: "langchain-openai" },
  "openai.md": { python: "openai", node: ["openai"] },
  "runpod-python.md": { python: "runpod" },
  "runpod-typescript.md": {},
};

/** The Python, and the folder where Node runs; undefined where the packages cannot be installed. */
export async function clientPackages(page: string): Promise<{ python: string; node: string } | undefined> {
  const { python, node } = CLIENT_PACKAGES[page]!;
  try {
    return {
      python: python === undefined ? "python3" : path.join(await pythonEnvironment(python, [python]), "python"),
      node: node === undefined ? ROOT : await nodePackages(node),
    };
  } catch {
    return undefined;
  }
}

export async function installClients(): Promise<void> {
  for (const page of Object.keys(CLIENT_PACKAGES)) await clientPackages(page);
}
