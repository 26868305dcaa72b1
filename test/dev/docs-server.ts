/** The explorer alone, beside no routes: what a test says is the newest code. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { scanProject } from "../../src/build/scan.ts";
import { type DocsChange, docsPage } from "../../src/dev/docs-page.ts";
import { openApiDocument } from "../../src/dev/openapi.ts";

export interface DocsServer {
  readonly url: string;
  /** Reads the project's code again and tells open pages. */
  changed(change?: DocsChange): Promise<void>;
}

export async function startDocs(t: TestContext, projectDir: string): Promise<DocsServer> {
  const scan = async () => (await scanProject({ projectDir, environment: process.env })).endpoints;
  let endpoints = await scan();
  const listeners = new Set<(change: DocsChange) => void>();
  let newest: DocsChange = {};
  const stop = new AbortController();
  const docs = docsPage({
    document: () => openApiDocument({ title: "shop", endpoints }),
    onChange: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    newest: () => newest,
    signal: stop.signal,
  });
  const server = createServer((req, res) => {
    if (!docs(req, res)) res.writeHead(404).end();
  });
  server.listen(0, "localhost");
  await once(server, "listening");
  t.after(() => {
    stop.abort();
    server.close();
    server.closeAllConnections();
  });
  return {
    url: `http://localhost:${(server.address() as AddressInfo).port}`,
    changed: async (change = {}) => {
      newest = change;
      if (change.problem === undefined) endpoints = await scan();
      for (const listener of listeners) listener(change);
    },
  };
}
