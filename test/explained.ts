/** What is asked of PostgreSQL while something is done, and how it would be carried out on what lies there. */
import pg from "pg";
import type { Postgres } from "../src/postgres/postgres.ts";

export interface Plan {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly "Index Cond"?: string;
  readonly Plans?: readonly Plan[];
}

export function nodesOf(plan: Plan): Plan[] {
  return [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];
}

export async function explained(postgres: Postgres, text: string, values: readonly unknown[]): Promise<Plan[]> {
  const { rows } = await postgres.query(`EXPLAIN (FORMAT JSON) ${text}`, values);
  return nodesOf(rows[0]["QUERY PLAN"][0].Plan);
}

/** Statements of this process that read or write rows, each once, with the values of its first time. */
export async function statementsOf(work: () => Promise<void>): Promise<Map<string, readonly unknown[]>> {
  const statements = new Map<string, readonly unknown[]>();
  const { query } = pg.Client.prototype;
  // biome-ignore lint/suspicious/noExplicitAny: it has many forms
  pg.Client.prototype.query = function (this: pg.Client, ...given: any[]): any {
    const [asked, more] = given;
    const { text, values = more } = typeof asked === "string" ? { text: asked } : asked;
    if (/^\s*(WITH|SELECT|INSERT|UPDATE|DELETE)\b/i.test(text) && !statements.has(text))
      statements.set(text, values ?? []);
    // biome-ignore lint/suspicious/noExplicitAny: as it was called
    return (query as any).apply(this, given);
  } as typeof query;
  try {
    await work();
  } finally {
    pg.Client.prototype.query = query;
  }
  return statements;
}

/** Tables that are read as a whole, with who does. */
export async function wholeReads(
  postgres: Postgres,
  statements: ReadonlyMap<string, readonly unknown[]>,
  isSmall: (table: string) => boolean,
): Promise<string[]> {
  const found: string[] = [];
  for (const [text, values] of statements) {
    for (const node of await explained(postgres, text, values)) {
      const table = node["Relation Name"] ?? "";
      if (node["Node Type"] === "Seq Scan" && !isSmall(table)) found.push(`${table}: ${text.trim()}`);
    }
  }
  return found;
}
