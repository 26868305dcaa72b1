import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { ERROR_HELP } from "../../src/domain/error-help.ts";
import { ERROR_CATALOGUE } from "../../src/domain/errors.ts";
import * as limits from "../../src/domain/limits.ts";
import { JOB_ROUTES } from "../../src/gateway/job-routes.ts";

/** Cells of the table rows whose first cell is code, without the marks. */
async function rowsOf(page: string): Promise<string[][]> {
  const text = await readFile(new URL(`../../docs/reference/${page}`, import.meta.url), "utf8");
  const rows = text.split("\n").filter((line) => line.startsWith("| `"));
  return rows.map((row) =>
    row
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim().replaceAll("`", "")),
  );
}

test("errors.md describes every error code with its HTTP status, cause and remedy, and no other", async () => {
  const rows = await rowsOf("errors.md");
  const described = rows.map(([code, status]) => `${code} ${status}`).sort();
  const known = Object.entries(ERROR_CATALOGUE).map(([code, { status }]) => `${code} ${status}`);
  assert.deepEqual(described, known.sort());
  const said = Object.entries(ERROR_HELP).map(([code, { cause, remedy }]) => [code, cause, remedy].join(": "));
  const shown = rows.map(([code, , cause, remedy]) => [code, cause, remedy].join(": "));
  assert.deepEqual(
    shown.sort(),
    said.map((text) => text.replaceAll("`", "")).sort(),
    "src/domain/error-help.ts has the texts",
  );
});

test("limits.md lists every limit with its value, and no other", async () => {
  const listed = (await rowsOf("limits.md")).map(([name, value]) => `${name} = ${value}`).sort();
  const known = Object.entries(limits).map(([name, value]) => `${name} = ${value}`);
  assert.deepEqual(listed, known.sort());
});

test("job-api.md lists every job route with its methods and the scopes it needs", async () => {
  const routes = (await rowsOf("job-api.md")).filter(([path]) => path!.startsWith("/"));
  const listed = routes.map(([path, methods, scopes]) => `${/^\/([a-z-]+)/.exec(path!)![1]}: ${methods}: ${scopes}`);
  const known = [...JOB_ROUTES.values()].map(
    ({ name, methods, scopes }) => `${name}: ${methods.join(", ")}: ${scopes.join(" or ")}`,
  );
  assert.deepEqual(listed.sort(), known.sort());
});
